package grammar

import (
	"fmt"

	"github.com/headgate-io/headgate/policy"
)

// Words of the grammar, by the values that they stand for.
var (
	failures     = wordsTo(policy.FailLocal)
	durabilities = wordsTo(policy.Sync)
	algorithms   = wordsTo(policy.Log)
	aligns       = wordsTo(policy.First)
	modes        = wordsTo(policy.Off)
	slashWords   = wordsTo(policy.SlashSeparates)
	unitWords    = wordsTo(policy.UnitYear)

	typeWords = []string{policy.IP.String(), policy.Lower.String(), policy.Secret.String()}

	missings = []string{"skip", "deny"}
	counts   = []string{"admitted", "all"}
	expiries = []string{"release", "charge"}
	cases    = []string{"exact", "ignore"}
	truths   = []string{"false", "true"}
)

// wordsTo returns the words of the values from 0 to last.
func wordsTo[T interface {
	~uint8
	fmt.Stringer
}](last T) (words []string) {
	for v := T(0); v <= last; v++ {
		words = append(words, v.String())
	}
	return words
}
