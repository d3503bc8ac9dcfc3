package secret_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cmd/headgate/secret"
	"github.com/headgate-io/headgate/internal/logbuf"
)

// write makes a file with the given text that only its owner may read.
func write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(name+"~", []byte(text), 0o600))
	require.NoError(t, os.Rename(name+"~", name))
}

const first, second = "the first secret", "the second secret"

func TestWhatAFileMayHold(t *testing.T) {
	name := filepath.Join(t.TempDir(), "secret")
	for text, want := range map[string][]string{
		first:                              {first},
		first + "\n":                       {first},
		"\n  " + first + " \r\n\n":         {first},
		first + "\n" + second + "\n":       {first, second},
		strings.Repeat("x", 1024):          {strings.Repeat("x", 1024)},
		first + "\n\n\t" + second + "\n\n": {first, second},
	} {
		write(t, name, text)
		f, err := secret.Open(name, slog.New(slog.DiscardHandler))
		require.NoError(t, err, "%q", text)
		var got []string
		for _, s := range f.Secrets() {
			got = append(got, string(s))
		}
		require.Equal(t, want, got)
	}
	for text, want := range map[string]string{
		"":                                  "the file is empty",
		" \n\n":                             "the file is empty",
		"fifteen bytes..":                   "a secret of 15 bytes: want 16 to 1024",
		first + "\nshort":                   "a secret of 5 bytes",
		strings.Repeat("x", 1025):           "a secret of 1025 bytes",
		strings.Repeat("x", 1<<20):          "more than 3072 bytes",
		strings.Repeat(first+"\n", 3):       "more than 2 lines",
		first + strings.Repeat("\n", 1<<20): "more than 3072 bytes",
	} {
		write(t, name, text)
		_, err := secret.Open(name, slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, "peer secret "+name+": "+want)
		require.NotContains(t, err.Error(), first)
	}
	_, err := secret.Open(name+" of nobody", slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = secret.Open(t.TempDir(), slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "is not a regular file")
}

// Nobody but the owner may read or write the file.
func TestFilesThatOthersMayRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "secret")
	write(t, name, first)
	for mode, fine := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o620: false, 0o644: false, 0o777: false, 0o601: false} {
		require.NoError(t, os.Chmod(name, mode))
		_, err := secret.Open(name, slog.New(slog.DiscardHandler))
		if fine {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "chmod 600 "+name)
		}
	}
}

func TestChangedFilesAreReadAgain(t *testing.T) {
	name, out := filepath.Join(t.TempDir(), "secret"), new(logbuf.Buffer)
	write(t, name, first)
	f, err := secret.Open(name, slog.New(slog.NewTextHandler(out, nil)))
	require.NoError(t, err)
	is := func(want ...string) {
		t.Helper()
		require.Eventually(t, func() bool {
			got := f.Secrets()
			if len(got) != len(want) {
				return false
			}
			for i := range got {
				if string(got[i]) != want[i] {
					return false
				}
			}
			return true
		}, 10*time.Second, 10*time.Millisecond)
	}
	is(first)
	write(t, name, first+"\n"+second)
	is(first, second) // by itself
	write(t, name, second)
	f.Reload()
	require.Equal(t, [][]byte{[]byte(second)}, f.Secrets(), "at once")
	require.Equal(t, 2, strings.Count(out.String(), "peer secret loaded"))

	require.NoError(t, os.Chmod(name, 0o644))
	require.Eventually(t, func() bool { f.Secrets(); return strings.Contains(out.String(), "not usable") }, 10*time.Second, 10*time.Millisecond)
	is(second)
	require.NoError(t, os.Remove(name))
	f.Reload()
	is(second)
	write(t, name, "short")
	f.Reload()
	f.Secrets()
	is(second)
	require.Equal(t, 3, strings.Count(out.String(), "not usable"), "each once: %s", out)
	require.NotContains(t, out.String(), second)
	write(t, name, first)
	is(first)
}

func TestCreate(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, secret.FileName)
	require.NoError(t, secret.Create(name))
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode())
	before, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Greater(t, len(before), 40)
	_, err = secret.Open(name, slog.New(slog.DiscardHandler))
	require.NoError(t, err)

	require.NoError(t, secret.Create(name), "it stays")
	after, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, before, after)
	other := filepath.Join(t.TempDir(), secret.FileName)
	require.NoError(t, secret.Create(other))
	after, err = os.ReadFile(other)
	require.NoError(t, err)
	require.NotEqual(t, before, after)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.ErrorContains(t, secret.Create(filepath.Join(dir, "no", "such")), "make peer secret")
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(first + "\n" + second))
	f.Add([]byte("\n\r\n \x00"))
	name := filepath.Join(f.TempDir(), "secret")
	f.Fuzz(func(t *testing.T, text []byte) {
		require.NoError(t, os.WriteFile(name, text, 0o600))
		file, err := secret.Open(name, slog.New(slog.DiscardHandler))
		if err != nil {
			return
		}
		secrets := file.Secrets()
		require.Contains(t, []int{1, 2}, len(secrets))
		for _, s := range secrets {
			require.True(t, len(s) >= 16 && len(s) <= 1024)
			require.True(t, bytes.Contains(text, s))
		}
	})
}
