package limits_test

import (
	"time"

	"github.com/headgate-io/headgate/internal/rig"
)

// step is one call of a scenario: its time, its command, its reply.
type step struct {
	ms         int64
	line, want string
}

// run plays a scenario.
func run(r *rig.Rig, steps []step) {
	r.T.Helper()
	for _, s := range steps {
		r.At(time.Duration(s.ms) * time.Millisecond)
		r.Is(s.line, s.want)
	}
}
