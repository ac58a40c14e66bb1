package pfw

import "github.com/trainspan/trainspan/internal/record/direct"

// ScopeKind prepares scopes as an attached processor does.
func (p *Processor) ScopeKind(category, name string) direct.ScopeKind {
	return scopes{p}.ScopeKind(category, name)
}

// EndScopes ends the open scopes as the end of the application does.
func (p *Processor) EndScopes() { p.endScopes() }

// FileLog returns what records calls on files.
func (p *Processor) FileLog() direct.FileLog { return p.fileLog() }
