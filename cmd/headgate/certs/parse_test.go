package certs

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/certstest"
)

// A file that ends anywhere but between two blocks is refused, as is one with a byte
// that does not belong there.
func TestHalfWrittenFilesAreRefused(t *testing.T) {
	one, two := certstest.New().PEM, certstest.New().PEM
	both := append(append([]byte("# ours\n"), one...), two...)
	first := len(both) - len(two)
	for n := range len(both) - 1 { // without the last end of a line it is whole
		list, err := parse(both[:n])
		if len(bytes.TrimSpace(both[first:max(first, n)])) == 0 && n >= first-1 {
			require.NoError(t, err, n)
			require.Len(t, list, 1)
			continue
		}
		require.Error(t, err, "cut after %d of %d", n, len(both))
	}
	for n := first; n < len(both)-1; n++ {
		if both[n] == '\n' {
			continue
		}
		_, err := parse(append(append(bytes.Clone(both[:n]), '!'), both[n+1:]...))
		require.Error(t, err, "byte %d of %d", n, len(both))
	}
	list, err := parse(both)
	require.NoError(t, err)
	require.Len(t, list, 2)
}

func TestParse(t *testing.T) {
	authority := certstest.New()
	one := string(authority.PEM)
	leaf, key := authority.Issue("x")
	body := strings.Join(strings.Split(strings.TrimSpace(one), "\n")[1:5], "\n")
	f := func(text string, want int) {
		t.Helper()
		list, err := parse([]byte(text))
		if want == 0 {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		require.Len(t, list, want)
	}
	f(one, 1)
	f(strings.TrimSpace(one), 1)
	f(strings.ReplaceAll(one+one, "\n", "\r\n"), 2)
	f("Root of all\n===========\n"+one+"\nBag Attributes\n    friendlyName: x\n--- and another ---\n"+one+"\n\n", 2)
	f("# -----BEGIN CERTIFICATE-----\n# MIIB\n# -----END CERTIFICATE-----\n"+one, 1)
	f(string(leaf)+string(key)+one, 2)

	f("", 0)
	f("garbage", 0)
	f(string(key), 0)
	f(one+"-----BEGIN CERTIFICATE-----\n"+body, 0)
	f(one+"-----BEGIN CERTIFICATE-----\n", 0)
	f(one+"-----BEG", 0)
	f(one+"-", 0)
	f("-----BEGIN CERTIFICATE-----\n"+body+"\n"+one, 0)
	f(body+"\n-----END CERTIFICATE-----\n"+one, 0)
	f(one+"-----BEGIN CERTIFICATE-----\n"+body+"\n-----END CERTIFICATE-----\n", 0)
	f(strings.TrimSpace(one)+one, 0)
	f(" "+strings.ReplaceAll(one, "\n", "\n "), 0)
	f("\ufeff"+one, 0)
	f(one+strings.ReplaceAll(one, "CERTIFICATE", "TRUSTED CERTIFICATE"), 0)
	f(string(leaf)+string(key)[:len(key)-40], 0)
}

func FuzzParse(f *testing.F) {
	one := certstest.New().PEM
	f.Add(one)
	f.Add(append(one[:len(one)-30:len(one)-30], one...))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := parse(data)
		require.Equal(t, err == nil, len(list) > 0)
	})
}
