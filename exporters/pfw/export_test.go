package pfw

import "github.com/trainspan/trainspan/internal/record/dispatch"

// ScopeKind prepares scopes as an attached processor does.
func (p *Processor) ScopeKind(category, name string) dispatch.ScopeKind {
	return scopes{p}.ScopeKind(category, name)
}

// EndScopes ends the open scopes as the end of the application does.
func (p *Processor) EndScopes() { p.endScopes() }

// FileLog returns what records calls on files.
func (p *Processor) FileLog() dispatch.FileLog { return p.fileLog() }
