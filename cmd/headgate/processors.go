package main

import (
	"os"
	"runtime"

	"github.com/headgate-io/headgate/cmd/headgate/config"
)

// spareProcessors gives a node of a cluster enough of Go's processors, unless
// the environment (GOMAXPROCS) sets their number.
func spareProcessors(c *config.Config) {
	if os.Getenv("GOMAXPROCS") == "" && c.Replicated() {
		runtime.GOMAXPROCS(processors(runtime.GOMAXPROCS(0), c.IOThreads))
	}
}

// processors returns how many of Go's processors a node of a cluster needs, of
// which it would have had n.
//
// An event loop never lets go of its processor, and a sync of the log or the
// garbage collector takes one for milliseconds. On two cores, nothing would be
// left for the goroutines between nodes: forwarded commands and commits would
// wait. With a third, the slowest hundredth of forwarded calls takes a third as
// long.
func processors(n, loops int) int { return max(n, min(loops, n)+2) }
