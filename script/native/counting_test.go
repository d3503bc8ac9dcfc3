package native

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/script/lua"
)

// runText runs the known script that a text is.
func (r *rig) runText(text, keys, args string) string {
	r.t.Helper()
	known := Find("", lua.Fingerprint{}, text)
	require.NotNil(r.t, known, text)
	r.w.B = r.w.B[:0]
	r.call = Call{Keys: words(keys), Args: words(args), Now: r.now, Sess: r.sess, W: &r.w}
	if !known.Run(&r.call) {
		return declined
	}
	return strings.TrimSpace(strings.ReplaceAll(string(r.w.B), "\r\n", " "))
}

// Scripts that many people write are recognised in each of their spellings.
func TestCountersAreRecognised(t *testing.T) {
	r := newRig(t)
	require.Equal(t, ":1", r.runText("-- counts\nlocal current = redis.call(\"INCR\", KEYS[1])\nif tonumber(current) == 1 then\n\tredis.call(\"EXPIRE\", KEYS[1], ARGV[1])\nend\nreturn current\n", "a", "60"))
	require.EqualValues(t, 60_000, r.left("a"))
	const limited = `
		local key = KEYS[1]
		local limit = tonumber(ARGV[1])
		local window = tonumber(ARGV[2])
		local n = tonumber(redis.call('INCR', key))
		if n == 1 then
			redis.call('PEXPIRE', key, window)
		end
		if n > limit then
			return 0
		end
		return 1`
	require.Equal(t, ":1", r.runText(limited, "b", "2 1500"))
	require.EqualValues(t, 1500, r.left("b"))
	r.now += int64(time.Second)
	require.Equal(t, ":1", r.runText(limited, "b", "2 1500"))
	require.Equal(t, ":0", r.runText(limited, "b", "2 1500"))
	require.EqualValues(t, 500, r.left("b"))
	require.Equal(t, "*2 :1 :7", r.runText("local count = redis.call('incr', KEYS[1]); if count == 1 then redis.call('expire', KEYS[1], ARGV[2]) end; return {count, redis.call('TTL', KEYS[1])}", "c", "x 7"))
	require.Equal(t, "*2 :4 :500", r.runText("local count = redis.call('incr', KEYS[1]) if count == 1 then redis.call('expire', KEYS[1], ARGV[1]) end local left = redis.call('pttl', KEYS[1]) return {count, left}", "b", "9"))
	require.Equal(t, ":1", r.runText("local c = redis.call('INCR', KEYS[1]) if c == 1 then redis.call('EXPIRE', KEYS[1], 60) end if c > tonumber(ARGV[1]) then return 0 end return 1", "minute", "5"))
	require.EqualValues(t, 60_000, r.left("minute"))
	r.set("forever", "5", 0)
	require.Equal(t, "*2 :6 :-1", r.runText("local count = redis.call('incr', KEYS[1]) if count == 1 then redis.call('expire', KEYS[1], ARGV[1]) end local left = redis.call('pttl', KEYS[1]) return {count, left}", "forever", "9"))
	r.set("zero", "0", 0)
	require.Equal(t, "$-1", r.runText("local x = redis.call('incr',KEYS[1]) if x==1 then redis.call('expire',KEYS[1],ARGV[1]) end", "zero", "9"))
	require.EqualValues(t, 9000, r.left("zero"))
	// As a gateway writes it.
	const before = "local name, length = KEYS[1], ARGV[1]\nlocal n = redis.call(\"incr\", name)\nif n == 1 then\n\tredis.call(\"expire\", name, length)\nend\n\nreturn n - 1"
	require.Equal(t, ":0", r.runText(before, "gateway", "60"))
	require.Equal(t, ":1", r.runText(before, "gateway", "60"))
	require.EqualValues(t, 60_000, r.left("gateway"))
	require.Equal(t, ":1", r.runText("local x = redis.call('incr',KEYS[1]) if x==1 then redis.call('expire',KEYS[1],ARGV[1]) end if x > tonumber(ARGV[2]) then return 1 end return 0", "zero", "9 1"))
}

func TestCountersDecline(t *testing.T) {
	r := newRig(t)
	const text = "local c = redis.call('incr', KEYS[1]) if c == 1 then redis.call('expire', KEYS[1], ARGV[1]) end return c > tonumber(ARGV[2]) and 0 or 1"
	for _, args := range []string{"1", "0 1", "-1 1", "x 1", "1 x", "1 1.5", "9999999999999 1"} {
		require.Equal(t, declined, r.runText(text, "k", args), args)
	}
	require.EqualValues(t, -2, r.left("k"))
	for _, value := range []string{"x", "1.5", "9007199254740992", "9223372036854775807"} {
		r.set("k", value, 0)
		require.Equal(t, declined, r.runText(text, "k", "1 1"))
		got, _ := r.get("k")
		require.Equal(t, value, got)
	}
}

// A text that is almost a form is not recognised.
func TestFormsAreExact(t *testing.T) {
	for _, text := range []string{
		"local c = redis.call('incr', KEYS[1]) if c == 2 then redis.call('expire', KEYS[1], ARGV[1]) end return c",
		"local c = redis.call('incr', KEYS[2]) if c == 1 then redis.call('expire', KEYS[2], ARGV[1]) end return c",
		"local c = redis.call('incr', KEYS[1]) if c == 1 then redis.call('expire', KEYS[2], ARGV[1]) end return c",
		"local c = redis.call('incr', KEYS[1]) if c == 1 then redis.call('expire', KEYS[1], ARGV[1]) end if c > tonumber(ARGV[2]) then return 0 end return 2",
		"local c = redis.call('incr', KEYS[1]) if c == 1 then redis.call('expire', KEYS[1], '60') end return c",
		"local c = redis.call('incr', KEYS[1]) if c == 1 then redis.call('expire', KEYS[1], 1.5) end return c",
		"local c = redis.call('incr', KEYS[1]) if c == 1 then redis.call('expire', KEYS[1], ARGV[99]) end return c",
		"local c = redis.call('incr', KEYS[1]) if c == 1 then redis.call('expire', KEYS[1], ARGV['x']) end return c",
		"local c = redis.call('incr', KEYS[1]) if c == 1 then redis.call('persist', KEYS[1]) end return c",
		"local c = redis.call('incr', KEYS[1]) if c == 1 then redis.call('expire', KEYS[1], ARGV[1]) end return c - 2",
		"local c = redis.call('incr', KEYS[1]) if c == 1 then redis.call('expire', KEYS[1], ARGV[1]) end return 1 - c",
		"return 1", "return return",
	} {
		require.Nil(t, Find("", lua.Fingerprint{}, text), text)
	}
}

// No two forms are alike: what one does would be done for the other.
func TestFormsAreDistinct(t *testing.T) {
	Prepare()
	seen := map[string]string{}
	for shape, list := range byShape {
		for _, f := range list {
			key := fmt.Sprint(shape, f.constants)
			require.Empty(t, seen[key], "%s is %s", f.text, seen[key])
			seen[key] = f.text
		}
	}
	t.Logf("%d forms of %d shapes", len(seen), len(byShape))
}

// No two scripts share a text: what one does would be done for another.
func TestFingerprintsAreDistinct(t *testing.T) {
	owners := map[lua.Fingerprint]*Script{}
	shas := map[string]*Script{}
	for i, s := range All() {
		require.Equal(t, i, s.Index)
		for _, text := range s.Fingerprints {
			var f lua.Fingerprint
			require.Len(t, text, 2*len(f))
			for i := range f {
				f[i] = unhex(text[2*i])<<4 | unhex(text[2*i+1])
			}
			require.Contains(t, []*Script{nil, s}, owners[f], "%s: %s", s.Library, text)
			owners[f] = s
		}
		for _, sha := range s.SHAs {
			require.Len(t, sha, shaLength)
			require.Nil(t, shas[sha], sha)
			shas[sha] = s
		}
	}
}

func unhex(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}
