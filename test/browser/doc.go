// Package browser opens the page of a report in a real browser. It is a module
// of its own: what drives a browser stays out of the library.
package browser
