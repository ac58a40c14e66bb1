package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
)

// callCommand runs a command of the shell and ends it, and what it started, at the end of
// the context.
func callCommand(ctx context.Context, a *ui.App, command string, body []byte) error {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(body), a.Stdout, a.Stderr
	cmd.WaitDelay = time.Second // what holds its streams open does not hold us
	ownGroup(cmd)
	err := cmd.Run()
	if flushed := a.Stdout.Flush(); err == nil {
		err = flushed
	}
	switch {
	case ctx.Err() != nil && err != nil:
		return fmt.Errorf("--exec: %w", context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("--exec: %w", err)
	}
	return nil
}

// post sends JSON. Errors do not name the URL, which may hold a token.
func post(ctx context.Context, to string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return errors.New("--webhook: no URL")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "trainspan")
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	switch inner := errors.Unwrap(err); {
	case ctx.Err() != nil:
		return fmt.Errorf("--webhook: %w", context.Cause(ctx))
	case inner != nil:
		return fmt.Errorf("--webhook: %w", inner)
	case err != nil:
		return errors.New("--webhook: no answer")
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // what it says is nobody's
	_ = resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("--webhook: it answers %s", resp.Status)
	}
	return nil
}
