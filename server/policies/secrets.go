package policies

import (
	"crypto/rand"
	"slices"

	"github.com/headgate-io/headgate/policy"
)

// # Secrets
//
// The value of an attribute of type secret is known to policies by an HMAC of it
// only, and so are keys, overrides and what explains them. The key of the HMAC is a
// record beside the policies: made by the first change that needs it, replicated
// with that, and never changed, since the counters' names follow from it.

// secretLength is how long the key is, in bytes.
const secretLength = 32

// keyFor returns a new key if edits of base are the first that need one, or nil.
func keyFor(base *policy.Set, edits []bookEdit) []byte {
	needs := func(e bookEdit) bool { return e.record != nil && e.record.HasSecrets() }
	if base.HasSecret() || !slices.ContainsFunc(edits, needs) {
		return nil
	}
	key := make([]byte, secretLength)
	_, _ = rand.Read(key) // never fails
	return key
}

// resetSecrets are those of RL.POLICY RESET.
func (e *Editor) resetSecrets(args [][]byte, at []int) []int {
	return e.book.Hide(args[2], args, 3, at)
}

// overrideSecrets are those of RL.OVERRIDE SET, and of GET and DEL if sets is not
// true. Of one that is wrong all are hidden.
func (e *Editor) overrideSecrets(sets bool) func(args [][]byte, at []int) []int {
	return func(args [][]byte, at []int) []int {
		a, err := parseOverride(args[3:], sets)
		if err != nil {
			for i := 3; i < len(args); i++ {
				at = append(at, i)
			}
			return at
		}
		return e.book.Hide(args[2], args, len(args)-len(a.pairs), at)
	}
}
