package policies

import (
	"crypto/rand"
	"slices"

	"github.com/headgate-io/headgate/policy"
)

// # Secrets
//
// In policies, keys, overrides and explanations, the value of a secret attribute appears
// only as an HMAC. The HMAC's key is a record. The first change that needs the key makes a
// random key and replicates it. The key never changes, because the names of counters depend
// on it.

// secretLength is the length of the key in bytes.
const secretLength = 32

// keyFor returns a new key if the edits of base are the first that need a key; otherwise
// nil.
func keyFor(base *policy.Set, edits []bookEdit) []byte {
	needs := func(e bookEdit) bool { return e.record != nil && e.record.HasSecrets() }
	if base.HasSecret() || !slices.ContainsFunc(edits, needs) {
		return nil
	}
	key := make([]byte, secretLength)
	_, _ = rand.Read(key) // never fails
	return key
}

// resetSecrets appends to at the positions of the arguments of RL.POLICY RESET that must
// not be shown.
func (e *Editor) resetSecrets(args [][]byte, at []int) []int {
	return e.book.Hide(args[2], args, 3, at)
}

// overrideSecrets returns the same function as resetSecrets for RL.OVERRIDE SET or, if sets
// is false, for GET and DEL. If the arguments are invalid, it hides all of them.
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
