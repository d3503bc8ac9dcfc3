package main

import (
	"os"
	"runtime"

	"github.com/headgate-io/headgate/cmd/headgate/config"
)

// spareProcessors gives the Go runtime of a node in a cluster enough processors, unless the
// environment (GOMAXPROCS) sets their number.
func spareProcessors(c *config.Config) {
	if os.Getenv("GOMAXPROCS") == "" && c.Replicated() {
		runtime.GOMAXPROCS(processors(runtime.GOMAXPROCS(0), c.IOThreads))
	}
}

// processors returns how many processors (GOMAXPROCS) a node of a cluster should use, if
// Go would use n by default.
//
// An event loop never releases its processor, and a sync of the log or the garbage
// collector takes a processor for milliseconds. On two cores, no processor would be left
// for the goroutines that connect nodes, so forwarded commands and commits would wait. With
// a third processor, the slowest hundredth of forwarded calls takes only a third of the
// time.
func processors(n, loops int) int { return max(n, min(loops, n)+2) }
