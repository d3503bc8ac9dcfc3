package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A command on several keys sees all or nothing of another: MGET of MSET, and EXISTS and DEL of
// RENAME.
func TestSomeKeysAreOneStep(t *testing.T) {
	_, addr := startServer(t, Config{IOThreads: 2})
	for name, c := range map[string]struct {
		prepare, read, want string
		write               func(i int) string
	}{
		"MGET":   {"MSET a 0 b 0", "MGET a b", "", func(i int) string { return fmt.Sprintf("MSET a %d b %d", i, i) }},
		"EXISTS": {"SET p 1", "EXISTS p q", "1", func(i int) string { return []string{"RENAME p q", "RENAME q p"}[i%2] }},
	} {
		writer, reader := dial(t, addr), dial(t, addr)
		writer.call(c.prepare)
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					writer.call(c.write(i))
				}
			}
		}()
		for end := time.Now().Add(time.Second); time.Now().Before(end); {
			reader.send(strings.Repeat(c.read+"\r\n", 50))
			for range 50 {
				got := reader.reply()
				if pair, ok := got.([]any); ok {
					require.Equal(t, pair[0], pair[1], name)
				} else {
					require.Equal(t, c.want, fmt.Sprint(got), name)
				}
			}
		}
		close(stop)
		<-done
	}
}
