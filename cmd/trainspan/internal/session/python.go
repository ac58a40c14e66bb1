//go:build unix

package session

import (
	"context"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/launch"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/rundir"
)

type pythonSide struct{}

func (s *Session) startPython(*launch.Ready) error { return nil }

func (p *pythonSide) close(context.Context) error { return nil }

func (p *pythonSide) describe(*rundir.Run) {}
