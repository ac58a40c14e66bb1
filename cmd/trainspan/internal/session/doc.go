// Package session is the telemetry process of trainspan run: it gathers what a
// command and its processes say and use, writes the files of the start, and says
// at the end what came of it. It runs beside the command (package launch) and
// outlives it for as long as the files take.
package session
