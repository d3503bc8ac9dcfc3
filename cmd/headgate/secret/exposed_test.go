package secret

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The group may read what belongs to root, where the process is another user's;
// nobody else may do anything.
func TestExposed(t *testing.T) {
	const user, other = 1000, 1001
	for _, c := range []struct {
		owner, self int
		fine, not   []os.FileMode
	}{
		{0, user, []os.FileMode{0o600, 0o400, 0o440, 0o640}, []os.FileMode{0o660, 0o620, 0o450, 0o444, 0o604, 0o642}},
		{0, 0, []os.FileMode{0o600, 0o400}, []os.FileMode{0o440, 0o640, 0o604}},
		{user, user, []os.FileMode{0o600, 0o400}, []os.FileMode{0o440, 0o640, 0o604}},
		{other, user, []os.FileMode{0o600, 0o400}, []os.FileMode{0o440, 0o640, 0o604}},
	} {
		for _, mode := range c.fine {
			require.False(t, exposed(mode, c.owner, c.self), "%#o of %d for %d", mode, c.owner, c.self)
		}
		for _, mode := range c.not {
			require.True(t, exposed(mode, c.owner, c.self), "%#o of %d for %d", mode, c.owner, c.self)
		}
	}
}
