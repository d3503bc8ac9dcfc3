package policy

import "fmt"

// Words of the grammar, by the values that they stand for.
var (
	failures     = wordsTo(FailLocal)
	durabilities = wordsTo(Sync)
	algorithms   = wordsTo(Log)
	aligns       = wordsTo(First)
	modes        = wordsTo(Off)
	slashWords   = wordsTo(SlashSeparates)
	unitWords    = wordsTo(UnitYear)

	typeWords = []string{IP.String(), Lower.String(), Secret.String()}

	missings = []string{"skip", "deny"}
	counts   = []string{"admitted", "all"}
	expiries = []string{"release", "charge"}
	cases    = []string{"exact", "ignore"}
	truths   = []string{"false", "true"}
)

// wordsTo returns the words of the values up to the last.
func wordsTo[T interface {
	~uint8
	fmt.Stringer
}](last T) (words []string) {
	for v := T(0); v <= last; v++ {
		words = append(words, v.String())
	}
	return words
}
