// Package effectstest reads payloads of effects for tests.
package effectstest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/effects"
)

// Effect is an effect as its reader would apply it.
type Effect struct {
	Key      string
	DB       uint8
	Present  bool
	Limit    algo.Limit
	Deadline int64
	State    string
}

// Rest keeps the records of a payload other than keys' states.
type Rest struct {
	Dict    []algo.Limit
	Flushes int
}

func (o *Rest) AddLimit(l algo.Limit)               { o.Dict = append(o.Dict, l) }
func (o *Rest) SetSystem(effects.SystemKey, []byte) {}
func (o *Rest) Flush()                              { o.Flushes++ }
func (o *Rest) Included(int64)                      {}

// ReadAll reads one payload.
func ReadAll(t *testing.T, payload []byte) (list []Effect) {
	list, _ = Read(t, payload)
	return list
}

// Read reads one payload, and returns how often it flushes.
func Read(t *testing.T, payload []byte) (list []Effect, flushes int) {
	var r effects.Reader
	var rest Rest
	require.NoError(t, r.Open(payload))
	for r.More() {
		var ef effects.Effect
		ok, err := r.Next(&ef, &rest)
		require.NoError(t, err)
		if !ok {
			continue
		}
		one := Effect{Key: string(ef.Image.Key), DB: ef.Image.Space}
		if ef.Limit >= 0 {
			one.Present, one.Limit = true, rest.Dict[ef.Limit]
			one.Deadline, one.State = ef.Image.Deadline, string(ef.Image.State)
		}
		list = append(list, one)
		if len(list)%7 == 0 {
			r.Recycle()
		}
	}
	return list, rest.Flushes
}
