package limits

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

// hide appends the positions of the values that must not be shown among pairs that
// begin at args[from]. Of a policy that this node does not know all are hidden, and
// while it does not know the last change: loops ask.
func (b *Book) hide(name []byte, args [][]byte, from int, at []int) []int {
	set, behind := b.current()
	p := set.Policy(name)
	if behind {
		p = nil
	}
	for i := from; i+1 < len(args); i += 2 {
		if p == nil || !p.Shows(args[i]) {
			at = append(at, i+1)
		}
	}
	return at
}

// hideInCheck is hide for arguments that may have options of RL.CHECK in between.
func (b *Book) hideInCheck(name []byte, args [][]byte, from int, at []int) []int {
	for i := from; i < len(args); {
		a := checkArgs{holds: true, names: true}
		n, err := a.option(args[i:])
		switch {
		case n > 0:
			i += n
		case err != nil: // an option without its argument, or one that is not supported
			i++
		default:
			at = b.hide(name, args[:min(len(args), i+2)], i, at)
			i += 2
		}
	}
	return at
}

// checkSecrets are the arguments of RL.CHECK that must not be shown.
func (b *Book) checkSecrets(args [][]byte, at []int) []int {
	return b.hideInCheck(args[1], args, 2, at)
}

// commitSecrets are those of RL.COMMIT, which may be given what was reserved.
func (b *Book) commitSecrets(args [][]byte, at []int) []int {
	name, _, _ := cutHold(args[1])
	return b.hide(name, args, 2, at)
}

// explainSecrets are those of RL.EXPLAIN.
func (b *Book) explainSecrets(args [][]byte, at []int) []int {
	if len(args) < 3 {
		return at
	}
	return b.hideInCheck(args[2], args, 3, at)
}

// resetSecrets are those of RL.POLICY RESET.
func (b *Book) resetSecrets(args [][]byte, at []int) []int { return b.hide(args[2], args, 3, at) }

// overrideSecrets are those of RL.OVERRIDE SET, and of GET and DEL if sets is not
// true. Of one that is wrong all are hidden.
func (b *Book) overrideSecrets(sets bool) func(args [][]byte, at []int) []int {
	return func(args [][]byte, at []int) []int {
		a, err := parseOverride(args[3:], sets)
		if err != nil {
			for i := 3; i < len(args); i++ {
				at = append(at, i)
			}
			return at
		}
		return b.hide(args[2], args, len(args)-len(a.pairs), at)
	}
}
