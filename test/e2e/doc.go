// Package e2e holds tests of whole runs against real servers: Jaeger and the
// OpenTelemetry Collector, built from their own modules and run on loopback.
// README.md says how to run them and what they need.
//
// Nothing imports this module.
package e2e
