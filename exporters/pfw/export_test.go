package pfw

import "github.com/trainspan/trainspan/internal/record/dispatch"

// ScopeKind returns the kind that an attached processor returns.
func (p *Processor) ScopeKind(category, name string) dispatch.ScopeKind {
	return scopes{p}.ScopeKind(category, name)
}

// EndScopes ends the open scopes, like the end of the application.
func (p *Processor) EndScopes() { p.endScopes() }

// FileLog returns the recorder of file calls.
func (p *Processor) FileLog() dispatch.FileLog { return p.fileLog() }
