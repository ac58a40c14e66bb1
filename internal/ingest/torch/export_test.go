package torch

// ReplaceStore replaces the function that writes the state file.
func (w *Watcher) ReplaceStore(with func(store func(path string) error) func(path string) error) {
	w.store = with(w.store)
}
