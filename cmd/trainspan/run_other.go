//go:build !unix

package main

import (
	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
)

func newRun(*ui.App) *cobra.Command {
	return &cobra.Command{
		Use:                "run [flags] -- COMMAND [ARGUMENT...]",
		Short:              "Run a training job and record it",
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return ui.Usage("run needs a Unix system")
		},
	}
}

func newRunTelemetry() *cobra.Command { return &cobra.Command{Use: "run-telemetry", Hidden: true} }

func newDemo(*ui.App) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Record a small built-in job with two faults, and show its report",
		RunE: func(*cobra.Command, []string) error {
			return ui.Usage("demo needs a Unix system")
		},
	}
}

func newDemoJob() *cobra.Command { return &cobra.Command{Use: "demo-job", Hidden: true} }
