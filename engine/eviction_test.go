package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// A step finds room at the limit of memory while there is any key that it does not keep.
// That holds for all sizes and shards of its values, on the table and on copies. It also
// holds on a leader, where evicted keys stay in memory until the commit.
func TestStepsFindRoom(t *testing.T) {
	t.Run("alone", func(t *testing.T) { stepsFindRoom(t, engine.New(engine.Config{MaxBytes: 4 << 20, Evict: true})) })
	t.Run("leader", func(t *testing.T) {
		n := newNode(t, engine.Config{MaxBytes: 4 << 20, Evict: true})
		n.r.Lead(start)
		var wg sync.WaitGroup
		done := make(chan struct{})
		wg.Go(func() {
			for tick := time.NewTicker(5 * time.Millisecond); ; {
				if _, ok := n.r.Cut(1 << 20); ok {
					n.l.Commit()
				}
				select {
				case <-done:
					return
				case <-tick.C:
				}
			}
		})
		stepsFindRoom(t, n.e)
		close(done)
		wg.Wait()
	})
}

func stepsFindRoom(t *testing.T, e *engine.Engine) {
	flood := e.NewSession()
	for i := 0; e.Stats().Evicted < 5000; i++ {
		_, err := flood.Set(start, fmt.Append(nil, "flood", i), make([]byte, 1+i%300), &engine.SetOptions{})
		require.NoError(t, err)
	}
	steps := 300
	if testing.Short() {
		steps = 60
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(5, uint64(w)))
			s, c := e.NewSession(), e.NewScratch()
			defer s.Close()
			write := func(s *engine.Session, key []byte) error {
				_, err := s.Set(start, key, make([]byte, 1+rnd.IntN(40<<10)), &engine.SetOptions{})
				return err
			}
			for i := range steps {
				for range 100 { // which leaves few large values
					if _, err := s.Incr(start, fmt.Append(nil, "n", rnd.IntN(100_000)), 1); err != nil {
						t.Error(err)
					}
				}
				keys := make([][]byte, 1+rnd.IntN(4))
				for j := range keys {
					keys[j] = fmt.Append(nil, "key", rnd.IntN(2000))
				}
				if i%4 == 0 {
					for !scratched(t, s, c, keys, write) {
					}
					continue
				}
				step := s.Isolate(start, keys, 1<<20)
				for n := range 6 {
					if err := write(s, keys[n%len(keys)]); err != nil {
						t.Errorf("step %d of %d: %v", i, w, err)
					}
				}
				step.Commit()
			}
		})
	}
	wg.Wait()
	require.Less(t, e.Stats().Bytes, int64(16<<20))
}

// scratched writes keys on copies, and reports whether they were stored.
func scratched(t *testing.T, s *engine.Session, c *engine.Scratch, keys [][]byte, write func(s *engine.Session, key []byte) error) bool {
	defer c.Reset()
	if err := c.Bring(s, start, keys...); err != nil {
		t.Error(err)
		return true
	}
	for _, key := range keys {
		if err := write(c.Session(), key); err != nil {
			t.Error(err)
		}
	}
	stored, err := c.Commit(s, start, nil)
	if err != nil {
		t.Errorf("commit: %v", err)
	}
	return stored || err != nil
}

// Large values never pass the bound, however they come about: set, grown, copied, in
// steps that hold a few keys or the whole table. With eviction off they are refused.
func TestLargeValuesStayWithinTheBound(t *testing.T) {
	const bound, writers = 16 << 20, 6
	each := 60
	if testing.Short() {
		each = 15
	}
	for _, evict := range []bool{true, false} {
		e := engine.New(engine.Config{MaxBytes: bound, Evict: evict})
		flood := e.NewSession()
		for i := 0; i < 150_000; i++ {
			if _, err := flood.Set(start, fmt.Append(nil, "flood", i), make([]byte, 1+i%50), &engine.SetOptions{}); err != nil {
				require.ErrorIs(t, err, engine.ErrFull)
				break
			}
		}
		var wg sync.WaitGroup
		var written, refused atomic.Int64
		for w := range writers {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(3, uint64(w)))
				s := e.NewSession()
				defer s.Close()
				key := func() []byte { return fmt.Append(nil, "large", rnd.IntN(200)) }
				for i := range each {
					name, to, size := key(), key(), 1<<(14+rnd.IntN(6))
					whole := i%15 == 0
					var step engine.Step
					if whole {
						step = s.IsolateAll(start, [][]byte{name, to}, 0)
					} else if i%5 == 0 {
						step = s.Isolate(start, [][]byte{name, to}, 0)
					}
					var err error
					switch i % 3 {
					case 0:
						_, err = s.Set(start, name, make([]byte, size), &engine.SetOptions{})
					case 1:
						var v *engine.Value
						if v, err = s.Open(start, name, algo.Counter); err == nil {
							if _, err = v.Splice(v.Len(), 0, size); errors.Is(err, engine.ErrValueTooLarge) {
								v.Delete()
								err = nil
							}
							v.Close()
						}
					default:
						if _, err = s.Copy(start, name, to, 0, true); errors.Is(err, engine.ErrNoKey) {
							err = nil
						}
					}
					step.Commit()
					if errors.Is(err, engine.ErrFull) {
						if evict && !whole {
							t.Errorf("step %d of %d is refused", i, w)
						}
						refused.Add(1)
					} else if err == nil {
						written.Add(1)
					} else {
						t.Error(err)
					}
					if n := e.Stats().Bytes; n > bound+bound>>6+1<<20 {
						t.Errorf("%d bytes after step %d of %d", n, i, w)
					}
				}
			})
		}
		wg.Wait()
		require.Positive(t, written.Load())
		if !evict {
			require.Positive(t, refused.Load())
			require.Zero(t, e.Stats().Evicted)
		}
	}
}
