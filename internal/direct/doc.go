// Package direct is the way of scopes of package ai and of calls on files to the
// outputs that record them themselves: neither are OpenTelemetry spans or records.
// One end is package ai and integrations/iofs, the other a trace file or a ledger.
package direct
