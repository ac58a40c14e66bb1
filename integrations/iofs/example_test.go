package iofs_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing/fstest"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/integrations/iofs"
	"github.com/trainspan/trainspan/telemetry"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // temporary

	ctx := context.Background()
	path := filepath.Join(dir, "trace.pfw.gz")
	tel, err := telemetry.NewTrainingTelemetryBuilder().
		WithBaseConfig(config.Base{ApplicationName: "charlm"}).
		WithExporter(pfw.New(path, nil)).
		ConfigureProvider(ctx)
	if err != nil {
		panic(err)
	}
	data := fstest.MapFS{"shard-0": {Data: []byte("to be or not to be")}}
	files := iofs.New(tel)
	text, err := fs.ReadFile(files.FS(data, "/data"), "shard-0")
	fmt.Println(len(text), err, tel.Shutdown(ctx))

	r, err := dftracer.OpenReader(path, nil)
	if err != nil {
		panic(err)
	}
	defer r.Close()
	for ev, err := range r.All() {
		if err != nil {
			panic(err)
		}
		if ev.Cat == "POSIX" {
			ret, _ := ev.Arg("ret")
			fmt.Println(ev.Name, ret.Int64())
		}
	}
	// Output:
	// 18 <nil> <nil>
	// read 18
}
