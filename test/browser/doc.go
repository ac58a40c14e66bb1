// Package browser opens the page of a report in a real browser. It is a
// separate module, so that the browser driver is no dependency of the library.
package browser
