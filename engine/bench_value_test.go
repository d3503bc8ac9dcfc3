package engine_test

import (
	"testing"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// BenchmarkStrings is one command on a string in process, over 20 000 keys; Open
// is a visit that reads.
func BenchmarkStrings(b *testing.B) {
	keys := benchKeys(20_000)
	run := func(name string, value string, one func(s *engine.Session, key []byte) error) {
		b.Run(name, func(b *testing.B) {
			s := engine.New(engine.Config{}).NewSession()
			for _, k := range keys {
				if _, err := s.Set(start, k, []byte(value), &engine.SetOptions{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			i := uint64(0)
			for b.Loop() {
				i = i*6364136223846793005 + 1442695040888963407
				if err := one(s, keys[(i>>33)%uint64(len(keys))]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	buf := make([]byte, 0, 64)
	text, o := []byte("a text of 20 letters"), &engine.SetOptions{}
	run("incr", "1", func(s *engine.Session, key []byte) error { _, err := s.Incr(start, key, 1); return err })
	run("increx", "1", func(s *engine.Session, key []byte) error {
		_, _, err := s.IncrEx(start, key, &engine.IncrOptions{By: engine.Integer(1)})
		return err
	})
	run("get", string(text), func(s *engine.Session, key []byte) error { _, _, err := s.Get(start, key, buf); return err })
	run("set", string(text), func(s *engine.Session, key []byte) error { _, err := s.Set(start, key, text, o); return err })
	run("open", string(text), func(s *engine.Session, key []byte) error {
		v, err := s.Open(start, key, algo.Counter)
		v.Bytes()
		v.Close()
		return err
	})
}
