package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/filetime"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
)

type openOptions struct {
	noBrowser bool
	once      bool
	port      int
	viewer    string
	filter    read.Filter
}

func newOpen(a *ui.App) *cobra.Command {
	var o openOptions
	cmd := &cobra.Command{
		Use:   "open [RUN|FILE...]",
		Short: "Show a run in Perfetto",
		Long: `Serves a run with all its ranks, or a trace, on this computer's loopback address and
opens Perfetto's page with it in the browser; --no-browser prints the link instead. The
page is loaded from the internet. The trace is not sent there: the browser fetches it
from this computer. The link contains a new random token each time, so only someone
with the link can fetch the trace. The command runs until Ctrl-C; with --once it ends
when the page has fetched the trace.

With --from and --to Perfetto shows this time first. The served part of the trace has
ten times as much before and after it, to look around.

Perfetto's page may fetch from port 9001 only; other ports are for other viewers.`,
		Example: `  trainspan open
  trainspan open train.3
  trainspan open trace.pfw.gz
  trainspan open trace.pfw.gz --from +10m --to +11m --rank 0
  trainspan open trace.pfw.gz --no-browser --once`,
		ValidArgsFunction: read.Complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runOpen(cmd.Context(), a, args, &o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.noBrowser, "no-browser", false, "print the link and do not open a browser")
	f.BoolVar(&o.once, "once", false, "exit when the trace has been fetched")
	f.IntVar(&o.port, "port", 9001, "port on 127.0.0.1; 0 chooses a free one")
	f.StringVar(&o.viewer, "viewer", "https://ui.perfetto.dev", "page to open; only this page may fetch the trace")
	o.filter.Flags(f)
	return cmd
}

func runOpen(ctx context.Context, a *ui.App, args []string, o *openOptions) error {
	viewer, err := url.Parse(o.viewer)
	if err != nil || viewer.Host == "" {
		return ui.Usage("--viewer %s: use the address of a page such as https://ui.perfetto.dev", o.viewer)
	}
	refs, err := read.Resolve(ctx, args)
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.port)))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return ui.Usage("cannot listen on 127.0.0.1:%d: %v; stop the program that uses the port, or use --viewer with another page than Perfetto's and --port 0", o.port, err)
	}
	defer l.Close() //nolint:errcheck // the server has closed it, unless it did not start
	var names, paths []string
	for i := range refs {
		names, paths = append(names, refs[i].Name()), append(paths, refs[i].Paths...)
	}
	args, imported, err := withTraces(ctx, a, paths)
	if err != nil {
		return err
	}
	defer imported.remove()
	files, err := read.Expand(ctx, args)
	if err != nil {
		return err
	}
	if err := o.filter.Prepare(ctx, files); err != nil {
		return err
	}
	shown := o.filter.Widen(shownAround)
	var s *survey
	if len(files) == 1 {
		s, err = surveyAll(ctx, a, files[0], &o.filter, nil, false)
	} else {
		dir, failed := fswrite.TempDir("", "trainspan-open-")
		if failed != nil {
			return failed
		}
		defer fswrite.RemoveDir(dir, func(name string) bool { return strings.HasPrefix(name, "merged") }) //nolint:errcheck // it is below the folder for temporary files
		file := filepath.Join(dir, "merged.pfw.gz")
		if err := mergeFor(ctx, a, files, file); err != nil {
			return err
		}
		err = read.Judging(func(times *filetime.Judge) (err error) { // merging has reported the defects of the files
			s, err = surveyBy(ctx, a, file, &o.filter, nil, times)
			return err
		})
	}
	if err != nil {
		return err
	}
	// The random path protects the trace from foreign pages and other users of this
	// machine.
	path := "/" + randomWord() + "/trace.json"
	link := fmt.Sprintf("%s/#!/?url=http://%s%s%s", o.viewer, l.Addr(), path, firstView(shown, s.startTime, s.endTime))
	h := &traceServer{
		a: a, ctx: ctx, trace: s, origin: viewer.Scheme + "://" + viewer.Host, host: l.Addr().String(), path: path,
		start: "/" + randomWord(), link: link, fetched: make(chan error, 1),
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(l) }) // ends with the Shutdown below
	defer served.Wait()
	defer server.Close() //nolint:errcheck // ends what is still sent

	a.Printf("%s\n", link)
	if err := a.Stdout.Err(); err != nil {
		return err
	}
	if !o.noBrowser {
		if err := browse("http://" + l.Addr().String() + h.start); err != nil {
			a.Note("cannot start a browser (%v); open the link yourself; see "+helptopic.Browser, err)
		}
	}
	if !o.once {
		a.Note("serving %s (%s); press Ctrl-C to stop", strings.Join(names, " "), display.Plural(len(files), "trace"))
		<-ctx.Done()
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case err = <-h.fetched:
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(stop))
}

// shownAround is how much is served before and after the time that is shown
// first, in lengths of that time.
const shownAround = 10

// firstView returns the parameters of Perfetto's page for the time that it shows
// first, in nanoseconds. The page ignores a time that is not within the trace,
// which begins and ends at the given times. All others are in microseconds.
func firstView(w read.Window, start, end int64) string {
	from, to := max(w.From, start), min(w.To, end)
	if w == (read.Window{}) || from >= to {
		return ""
	}
	return fmt.Sprintf("&visStart=%d&visEnd=%d", from*1000, to*1000)
}

// traceServer serves one trace, as Chrome's JSON, to one page.
type traceServer struct {
	a       *ui.App
	ctx     context.Context //nolint:containedctx // of the command
	trace   *survey
	origin  string
	host    string
	path    string // of the trace; only the link has it
	fetched chan error

	// The browser is started with an address that redirects to the link, once,
	// because all users of the machine can see the arguments of a program.
	start, link string
	started     atomic.Bool

	mu sync.Mutex // serializes requests
}

// randomWord returns a random word of 256 bits.
func randomWord() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// equalConstantTime compares two texts in constant time.
func equalConstantTime(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// ServeHTTP implements http.Handler.
func (t *traceServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Vary", "Origin")
	head.Set("Referrer-Policy", "no-referrer")
	switch from := r.Header.Get("Origin"); {
	case r.Host != t.host: // another name for this address: DNS rebinding
		http.Error(w, "not found", http.StatusForbidden)
		return
	case from != "" && from != t.origin:
		http.Error(w, "this page may not fetch the trace", http.StatusForbidden)
		return
	case equalConstantTime(r.URL.Path, t.start):
		if r.Method != http.MethodGet || !t.started.CompareAndSwap(false, true) {
			http.Error(w, "this address works once; open the link that trainspan open printed", http.StatusGone)
			return
		}
		head.Set("Cache-Control", "no-store")
		http.Redirect(w, r, t.link, http.StatusSeeOther)
		return
	}
	head.Set("Access-Control-Allow-Origin", t.origin)
	head.Set("Access-Control-Allow-Private-Network", "true")
	switch {
	case !equalConstantTime(r.URL.Path, t.path):
		http.NotFound(w, r)
	case r.Method == http.MethodOptions:
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodHead:
		head.Set("Content-Type", "application/json")
	case r.Method != http.MethodGet:
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
	default:
		t.mu.Lock()
		defer t.mu.Unlock()
		head.Set("Content-Type", "application/json")
		head.Set("Cache-Control", "no-store")
		err := t.send(w, r)
		if err != nil && r.Context().Err() == nil {
			t.a.Note("%s", ui.Explain(err))
		}
		if err == nil {
			select {
			case t.fetched <- nil:
			default:
			}
		}
	}
}

// send writes the trace, compressed if the page accepts gzip.
func (t *traceServer) send(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	defer context.AfterFunc(r.Context(), cancel)()
	format := &chromeFormat{from: t.trace}
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_, err := writeText(ctx, t.trace, format, w, nil)
		return err
	}
	w.Header().Set("Content-Encoding", "gzip")
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if _, err := writeText(ctx, t.trace, format, z, nil); err != nil {
		return err
	}
	return z.Close()
}

// browse opens a link with the system's browser.
func browse(link string) error {
	name, args := "xdg-open", []string{link}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", link}
	}
	cmd := exec.Command(name, args...)
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}
