package lua

import (
	"errors"
	"strings"
	"testing"
)

// FuzzText compiles and runs any text: it is refused, or ends within its bounds,
// and is never an error of ours.
func FuzzText(f *testing.F) {
	for _, chunk := range semantics() {
		f.Add(chunk)
	}
	for _, text := range hostile {
		f.Add(text)
	}
	env := newEnvironment()
	th := NewThread(env)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := env.Compile(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "user_script:") {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		th.Reset(Limits{Steps: 20e3, Memory: 1 << 20})
		_, err = th.Run(p)
		var abort *Abort
		if errors.As(err, &abort) && !errors.Is(err, ErrSteps) && !errors.Is(err, ErrMemory) {
			t.Fatalf("%q: %v", text, err)
		}
		if n := len(th.run.live); n > 0 {
			t.Fatalf("%q leaves %d coroutines", text, n)
		}
	})
}
