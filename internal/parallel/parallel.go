// Package parallel does the same for many things on several goroutines.
package parallel

import (
	"runtime"
	"sync"
)

// Do calls do for 0 to n-1, on as many goroutines as workers says, 0 for one per
// processor, and returns when all calls have.
func Do(workers, n int, do func(i int)) {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var wait sync.WaitGroup
	next := make(chan int)
	for range min(workers, n) {
		wait.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wait.Wait()
}
