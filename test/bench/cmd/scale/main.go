// Command scale writes the traces of a large job and measures the cost of
// reading them: wall time, CPU time and peak memory of a command, as the system
// counts them, and the CPU time as a multiple of that of a bare
// [dftracer.Reader] over the same files.
//
//	go run ./cmd/scale -ranks 1024 -steps 1000
//	go run ./cmd/scale -ranks 1024 -steps 100 -folder 128 -stages
//	go run ./cmd/scale -ranks 10240 -steps 200 -folder 8 -dir /tmp/job -keep -- trace digest {} -o /tmp/job.digest
//
// The arguments after -- are those of trainspan, with {} for the folder of the
// job; the default is "report {} --json".
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/testkit/simjob"
	"github.com/trainspan/trainspan/test/bench"
)

func main() {
	var o options
	flag.IntVar(&o.job.Ranks, "ranks", 1024, "ranks of the job")
	flag.IntVar(&o.job.Steps, "steps", 1000, "steps of each rank")
	flag.IntVar(&o.job.Layers, "layers", 0, "layers of sharded parameters: five more spans of a step each")
	flag.IntVar(&o.job.Folder, "folder", 0, "ranks to a folder of their own; 0 is one folder for all")
	flag.StringVar(&o.dir, "dir", "", "folder for the job; a temporary one without it. What is there is used again")
	flag.BoolVar(&o.keep, "keep", false, "leave the job there")
	flag.StringVar(&o.binary, "trainspan", "", "the command; it is built without it")
	bare := flag.String("bare", "", "read the traces of this folder and do nothing with them; what the others are compared with")
	flag.BoolVar(&o.all, "stages", false, "measure every stage, a part for each folder, in place of one command")
	flag.Parse()
	if o.args = flag.Args(); len(o.args) == 0 {
		o.args = []string{"report", "{}", "--json"}
	}
	if *bare != "" {
		if err := bench.ReadBare(*bare); err != nil {
			fmt.Fprintln(os.Stderr, "scale:", err)
			os.Exit(1)
		}
		return
	}
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

type options struct {
	job    simjob.Large
	dir    string
	keep   bool
	all    bool
	binary string
	self   string
	args   []string
}

func (o *options) run() error {
	work, err := os.MkdirTemp("", "trainspan-scale-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // it is temporary
	if o.dir == "" {
		o.dir = filepath.Join(work, "job")
	}
	if o.binary == "" {
		if o.binary, err = bench.BuildCommand(work); err != nil {
			return err
		}
	}
	if o.self, err = os.Executable(); err != nil {
		return err
	}
	if _, err := os.Stat(o.dir); err != nil {
		o.job.Slow, o.job.Extra, o.job.Save = o.job.Ranks*2/3, 12, 200
		began := time.Now()
		if err := o.job.Write(o.dir); err != nil {
			return err
		}
		fmt.Printf("written in %.0f s\n", time.Since(began).Seconds())
		if !o.keep {
			defer os.RemoveAll(o.dir) //nolint:errcheck // ours
		}
	}
	files, bytes := size(o.dir)
	events := o.job.Ranks * o.job.Steps * o.job.Spans()
	fmt.Printf("%d ranks x %d steps x %d spans = %.1f M events in %d files, %.0f MB, %d cores\n",
		o.job.Ranks, o.job.Steps, o.job.Spans(), float64(events)/1e6, files, float64(bytes)/1e6, runtime.GOMAXPROCS(0))
	if o.all {
		return o.stages(work)
	}
	reader, got, err := o.beside(o.dir)
	if err != nil {
		return err
	}
	fmt.Printf("a bare reader of the traces: %s\ntrainspan %s\n%s, %.2f µs of CPU per event, %.2f times a bare reader\n",
		reader, strings.ReplaceAll(strings.Join(o.args, " "), "{}", o.dir), got, got.CPU.Seconds()*1e6/float64(events), got.CPU.Seconds()/reader.CPU.Seconds())
	return nil
}

// beside measures a bare reader of the traces of a folder, and the command.
func (o *options) beside(dir string) (bare, got bench.Usage, err error) {
	args := make([]string, len(o.args))
	for i := range args {
		args[i] = strings.ReplaceAll(o.args[i], "{}", dir)
	}
	if bare, err = bench.RunCommand(o.self, "-bare", dir); err == nil {
		got, err = bench.RunCommand(o.binary, args...)
	}
	return bare, got, err
}

func size(dir string) (files int, bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // what cannot be seen is not counted
		}
		if info, err := d.Info(); err == nil {
			files, bytes = files+1, bytes+info.Size()
		}
		return nil
	})
	return files, bytes
}
