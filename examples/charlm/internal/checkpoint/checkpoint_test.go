package checkpoint_test

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/examples/charlm/internal/checkpoint"
	"github.com/trainspan/trainspan/examples/charlm/internal/model"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testState(step int64) *checkpoint.State {
	cfg := model.Config{Vocab: 5, Context: 2, Embed: 3, Hidden: 4, Layers: 2}
	s := &checkpoint.State{
		Run:      checkpoint.Run{Model: cfg, Seed: math.MaxUint64, BatchSize: 4, StepsPerEpoch: 9, Data: 1<<63 + 1},
		Position: checkpoint.Position{Epoch: 2, Batch: 7, Step: step},
		AdamStep: step, LR: 0.002,
	}
	for i := range cfg.NumParams() {
		s.Params = append(s.Params, float32(math.Sin(float64(i)+float64(step))))
		s.M = append(s.M, -float32(i))
		s.V = append(s.V, float32(i)/3)
	}
	s.Params[0] = float32(math.Inf(1)) // a run with infinite weights must stay readable
	return s
}

func encode(t *testing.T, s *checkpoint.State) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := checkpoint.Write(&b, s)
	if err != nil {
		t.Fatal(err)
	}
	if n != int64(b.Len()) {
		t.Errorf("Write returned %d bytes, want %d as written", n, b.Len())
	}
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	want := testState(40)
	got, err := checkpoint.Read(bytes.NewReader(encode(t, want)))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read back\n%+v\nwant\n%+v", got, want)
	}
}

func TestEveryFlippedByteAndEveryCutIsSeen(t *testing.T) {
	good := encode(t, testState(40))
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		if _, err := checkpoint.Read(bytes.NewReader(bad)); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Fatalf("byte %d flipped: error %v, want ErrCorrupt", i, err)
		}
		if _, err := checkpoint.Read(bytes.NewReader(good[:i])); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Fatalf("cut at %d: error %v, want ErrCorrupt", i, err)
		}
	}
	if _, err := checkpoint.Read(bytes.NewReader(append(good, 0))); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("a byte too many: error %v, want ErrCorrupt", err)
	}
}

func TestWriteRefusesWrongSizes(t *testing.T) {
	s := testState(1)
	s.M = s.M[:3]
	if _, err := checkpoint.Write(&bytes.Buffer{}, s); err == nil {
		t.Error("moments of the wrong length were written")
	}
}

func TestStoreKeepsTheNewest(t *testing.T) {
	store := open(t, 2)
	for _, step := range []int64{5, 20, 100, 1_000_000_000_0} { // the last has more digits than the names are padded to
		if _, err := store.Save(testState(step)); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, store); !reflect.DeepEqual(got, []string{"step-000000100.ckpt", "step-10000000000.ckpt"}) {
		t.Errorf("kept %v, want [step-000000100.ckpt step-10000000000.ckpt]", got)
	}
	// Saving an older step, as after going back, must not remove the file just
	// saved.
	saved, err := store.Save(testState(7))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(saved.Path); err != nil {
		t.Errorf("the file just saved is gone: %v", err)
	}
	if err := store.Clear(); err != nil {
		t.Fatal(err)
	}
	if state, path, _, err := store.LoadNewest(); state != nil || path != "" || err != nil {
		t.Errorf(`LoadNewest of an empty store = %v, %q, %v; want nil, "", nil`, state, path, err)
	}
}

func TestLoadNewestPassesOverDamage(t *testing.T) {
	store := open(t, 0)
	if _, err := store.Save(testState(10)); err != nil {
		t.Fatal(err)
	}
	newest, err := store.Save(testState(20))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(newest.Path, newest.Bytes-5); err != nil {
		t.Fatal(err)
	}
	state, path, skipped, err := store.LoadNewest()
	if err != nil {
		t.Fatal(err)
	}
	if state.Step != 10 || filepath.Base(path) != "step-000000010.ckpt" {
		t.Errorf("loaded step %d from %s, want 10 from step-000000010.ckpt", state.Step, path)
	}
	if len(skipped) != 1 || !strings.Contains(skipped[0].Error(), newest.Path) {
		t.Errorf("skipped %v, want one naming %s", skipped, newest.Path)
	}
	if err := os.Truncate(path, 3); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := store.LoadNewest(); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("only damaged files: error %v, want ErrCorrupt", err)
	}
}

func TestFailedSaveLeavesNothing(t *testing.T) {
	store := open(t, 3)
	s := testState(1)
	s.V = nil
	if _, err := store.Save(s); err == nil {
		t.Fatal("Save without the second moments: no error, want one")
	}
	entries, err := os.ReadDir(store.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 0 {
		t.Errorf("left behind: %v, want none", entries)
	}
}

func TestOpenRemovesHalfWrittenFiles(t *testing.T) {
	store := open(t, 3)
	saved, err := store.Save(testState(1))
	if err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(store.Dir(), ".writing-123")
	if err := os.WriteFile(half, []byte("CHARLM"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := checkpoint.Open(store.Dir(), 3); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(half); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the half-written file is still there: %v", err)
	}
	if _, err := checkpoint.Load(saved.Path); err != nil {
		t.Errorf("the whole checkpoint is damaged: %v", err)
	}
}

func TestWriterSavesInTheBackground(t *testing.T) {
	store := open(t, 3)
	w := checkpoint.NewWriter(store)
	var results []checkpoint.Result // written by the one background goroutine, read after Close
	live := testState(1)
	for step := int64(1); step <= 5; step++ {
		live.Step = step
		if err := w.Save(live.Clone(), func(r checkpoint.Result) { results = append(results, r) }); err != nil {
			t.Fatal(err)
		}
		live.Params[1]++ // the training continues
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if err := w.Save(live, nil); err == nil {
		t.Error("Save after Close gave no error")
	}
	for i, r := range results {
		if r.Err != nil || r.Step != int64(i+1) || r.Bytes == 0 || r.End.Before(r.Start) {
			t.Errorf("result %d is %+v, want step %d, some bytes, an end after the start", i, r, i+1)
		}
	}
	state, _, _, err := store.LoadNewest()
	if err != nil {
		t.Fatal(err)
	}
	if want := testState(1).Params[1] + 4; len(results) != 5 || state.Step != 5 || state.Params[1] != want {
		t.Errorf("%d results; newest is step %d with weight %g, want step 5 with %g", len(results), state.Step, state.Params[1], want)
	}
}

func TestWriterReportsFailures(t *testing.T) {
	store := open(t, 3)
	w := checkpoint.NewWriter(store)
	if err := os.RemoveAll(store.Dir()); err != nil {
		t.Fatal(err)
	}
	var seen error
	// The background save may have failed before Save returns.
	early := w.Save(testState(1), func(r checkpoint.Result) { seen = r.Err })
	if err := errors.Join(early, w.Close()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Save and Close gave %v, want the background error", err)
	}
	if !errors.Is(seen, os.ErrNotExist) {
		t.Errorf("the callback saw %v", seen)
	}
}

func open(t *testing.T, keep int) *checkpoint.Store {
	t.Helper()
	store, err := checkpoint.Open(filepath.Join(t.TempDir(), "checkpoints"), keep)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func names(t *testing.T, store *checkpoint.Store) []string {
	t.Helper()
	paths, err := store.Paths()
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range paths {
		paths[i] = filepath.Base(p)
	}
	return paths
}
