package grammar

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The reference and the schema have every key of the grammar, and the schema
// takes the texts of the tests.
func TestReferenceAndSchemaHaveEveryKey(t *testing.T) {
	reference, schema := Reference(), string(Schema())
	keys := func(names []string, later []string) {
		for _, k := range names {
			require.Contains(t, reference, "| `"+k+"` |")
			require.Contains(t, schema, `"`+k+`": {`)
		}
		for _, k := range later {
			require.Contains(t, reference, "`"+k+"`: ")
		}
	}
	keys(split(fileEntries))
	keys(split(policyEntries))
	keys(split(limitEntries))
	keys(split(overrideEntries))
	keys(split(numbersEntries))
	keys(split(clauseEntries))
	keys(split(attributeEntries))
	keys(split(prefixEntries))
	keys(split(routesEntries))
	keys(split(targetEntries))
	keys(split(sourceEntries))
}

// A row of the grammar is whole: what is read is also written, and so compared.
func TestEveryRowIsWritten(t *testing.T) {
	whole(t, policyEntries)
	whole(t, limitEntries)
	whole(t, calendarEntries)
	whole(t, penaltyEntries)
	whole(t, holdEntries)
	whole(t, overrideEntries)
	whole(t, numbersEntries)
	whole(t, attributeEntries)
	whole(t, prefixEntries)
	whole(t, descriptorEntries)
	whole(t, rateLimitEntries)
	whole(t, routesEntries)
	whole(t, targetEntries)
}

func whole[T any](t *testing.T, entries []entry[T]) {
	for i := range entries {
		e := &entries[i]
		require.True(t, e.later != "" || e.read != nil && (e.print != nil || e.parts != nil || e.block != nil), e.key)
	}
}

func split[T any](entries []entry[T]) (names, later []string) {
	for i := range entries {
		if e := &entries[i]; e.later != "" {
			later = append(later, e.key)
		} else {
			names = append(names, e.key)
		}
	}
	return names, later
}
