// Package e2e holds tests of whole runs with real servers: Jaeger and the
// OpenTelemetry Collector, built from their own modules and run on loopback.
// README.md describes how to run them and their requirements.
//
// Nothing imports this module.
package e2e
