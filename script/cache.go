package script

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/headgate-io/headgate/script/lua"
	"github.com/headgate-io/headgate/script/native"
)

// Bounds of a Cache. Redis has none, and many a client makes a script of each
// value that it sends.
const (
	maxScripts = 10_000
	maxBytes   = 64 << 20
	// MaxBody is the longest text of a script, in bytes.
	MaxBody = 512 << 10
	// scriptOverhead is what a script takes beside eight times its text:
	// the text, and the closures made of it.
	scriptOverhead = 1 << 10
	bytesOfByte    = 8
)

// Errors of a Cache.
var (
	ErrFull     = errors.New("too many scripts are loaded: SCRIPT FLUSH makes room")
	ErrTooLarge = errors.New("a script is longer than 512 KiB")
)

// Script is a text that has been compiled.
type Script struct {
	Body string
	// SHA is the SHA1 of Body in lower-case hex: its name.
	SHA   string
	Flags Flags
	// Native is what runs in place of the text where it can, nil for a text that
	// is not known.
	Native *native.Script

	proto *lua.Proto
	// loaded tells that a client asked to keep it; others make room.
	loaded atomic.Bool
	// used is the round of the Cache in which the script was found last.
	used atomic.Uint64
	// stored is the generation of the Store in which its text was there, or
	// neverStored.
	stored atomic.Uint64
}

const neverStored = math.MaxUint64

// size is what the script counts for in the Cache.
func (s *Script) size() int { return bytesOfByte*len(s.Body) + scriptOverhead }

// Digest is the SHA1 of text in lower-case hex.
func Digest(text []byte) string {
	sum := sha1.Sum(text)
	return hex.EncodeToString(sum[:])
}

// digestLength is how long a Digest is.
const digestLength = 2 * sha1.Size

// Cache finds scripts by text and by SHA1. It holds at most 10,000 scripts and
// 64 MiB: those that came with EVAL make room, the least recently used first,
// those that came with SCRIPT LOAD stay, until no more fit.
type Cache struct {
	env   *Environment
	store Store
	// round counts the scripts that were added: the clock of used.
	round atomic.Uint64

	// mu guards the fields below.
	mu     sync.RWMutex
	byBody map[string]*Script
	bySHA  map[string]*Script
	bytes  int
}

// Store keeps the texts of scripts where they outlive the process: a cluster's
// replicated state.
type Store interface {
	// Kept reports whether texts are kept at all; if not, the Cache has all
	// that there are.
	Kept() bool
	// Generation changes whenever a text may be gone.
	Generation() uint64
	// Text returns the text of a SHA1 (lower-case hex), and whether it came with
	// SCRIPT LOAD.
	Text(sha string) (body string, loaded, ok bool)
}

// NewCache returns an empty cache of scripts that run in env. Texts that it does
// not know are asked of store.
func NewCache(env *Environment, store Store) *Cache {
	native.Prepare()
	return &Cache{env: env, store: store, byBody: make(map[string]*Script), bySHA: make(map[string]*Script)}
}

// ByBody returns the script with a text, or nil if it has not been loaded.
func (c *Cache) ByBody(body []byte) *Script {
	c.mu.RLock()
	s := c.byBody[string(body)]
	c.mu.RUnlock()
	return c.current(s)
}

// BySHA returns the script of a SHA1 in hex, in any case, or nil if there is
// none. A text that only the Store knows is compiled.
func (c *Cache) BySHA(sha []byte) *Script {
	if len(sha) != digestLength {
		return nil
	}
	var lower [digestLength]byte
	for i, b := range sha {
		if b-'A' <= 'Z'-'A' {
			b += 'a' - 'A'
		}
		lower[i] = b
	}
	c.mu.RLock()
	s := c.bySHA[string(lower[:])]
	c.mu.RUnlock()
	if s = c.current(s); s != nil {
		return s
	}
	if !c.store.Kept() {
		return nil
	}
	gen := c.store.Generation()
	body, loaded, ok := c.store.Text(string(lower[:]))
	if !ok {
		return nil
	}
	if s, _, _ = c.Load([]byte(body), loaded); s != nil {
		s.stored.Store(gen)
	}
	return s
}

// current returns s if its text is in the Store, and nil if it is gone: another
// node's SCRIPT FLUSH has reached this one.
func (c *Cache) current(s *Script) *Script {
	if s == nil {
		return nil
	}
	if gen := c.store.Generation(); s.stored.Load() != gen && c.store.Kept() {
		if _, _, ok := c.store.Text(s.SHA); !ok {
			return nil
		}
		s.stored.Store(gen)
	}
	if now := c.round.Load(); s.used.Load() != now {
		s.used.Store(now)
	}
	return s
}

// Load compiles a text, unless it is there already, and adds it. keep is for
// SCRIPT LOAD: it is not dropped to make room. dropped are the SHA1s of those
// that have made room. Errors are ErrFull, ErrTooLarge, or in Redis's words.
func (c *Cache) Load(body []byte, keep bool) (s *Script, dropped []string, err error) {
	c.mu.RLock()
	s = c.byBody[string(body)]
	c.mu.RUnlock()
	if s == nil {
		if s, err = c.compile(string(body)); err != nil {
			return nil, nil, err
		}
	}
	if !keep {
		// Another node may have been given it by SCRIPT LOAD. The Store is asked
		// without mu, which it may wait for.
		_, keep, _ = c.store.Text(s.SHA)
	}
	return c.add(s, keep)
}

func (c *Cache) compile(body string) (*Script, error) {
	if len(body) > MaxBody {
		return nil, ErrTooLarge
	}
	flags, code, err := shebang(body)
	if err != nil {
		return nil, err
	}
	proto, err := c.env.lua.Compile(code)
	if err != nil {
		return nil, errors.New("Error compiling script (new function): " + err.Error())
	}
	s := &Script{Body: body, SHA: Digest([]byte(body)), Flags: flags, proto: proto}
	if flags == 0 {
		s.Native = native.Find(s.SHA, proto.Fingerprint(), body)
	}
	s.stored.Store(neverStored)
	return s, nil
}

// chunkName is what errors call a script.
const chunkName = "@user_script"

// add puts s into the maps, or returns the one that is there.
func (c *Cache) add(s *Script, keep bool) (_ *Script, dropped []string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.byBody[s.Body]; old != nil {
		s = old
	} else {
		if dropped, err = c.makeRoom(s.size()); err != nil {
			return nil, dropped, err
		}
		c.byBody[s.Body], c.bySHA[s.SHA] = s, s
		c.bytes += s.size()
		s.used.Store(c.round.Add(1))
	}
	if keep {
		s.loaded.Store(true)
	}
	return s, dropped, nil
}

// makeRoom drops scripts, a sixteenth of the bound at least, if one of size
// bytes does not fit. mu must be held.
func (c *Cache) makeRoom(size int) (dropped []string, err error) {
	if len(c.byBody) < maxScripts && c.bytes+size <= maxBytes {
		return nil, nil
	}
	var old []*Script
	for _, s := range c.byBody {
		if !s.loaded.Load() {
			old = append(old, s)
		}
	}
	slices.SortFunc(old, func(a, b *Script) int { return cmp.Compare(a.used.Load(), b.used.Load()) })
	for _, s := range old {
		if len(c.byBody) <= maxScripts-maxScripts/16 && c.bytes+size <= maxBytes-maxBytes/16 {
			break
		}
		c.remove(s)
		dropped = append(dropped, s.SHA)
	}
	if len(c.byBody) == maxScripts || c.bytes+size > maxBytes {
		return dropped, ErrFull
	}
	return dropped, nil
}

// remove forgets s. mu must be held.
func (c *Cache) remove(s *Script) {
	delete(c.byBody, s.Body)
	delete(c.bySHA, s.SHA)
	c.bytes -= s.size()
}

// Loaded reports whether a client has asked to keep the script.
func (s *Script) Loaded() bool { return s.loaded.Load() }

// Has reports whether the script of a SHA1 in lower-case hex is compiled.
func (c *Cache) Has(sha string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.bySHA[sha] != nil
}

// Flush forgets all scripts.
func (c *Cache) Flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.byBody)
	clear(c.bySHA)
	c.bytes = 0
}

// Len is how many scripts there are, and Bytes what they count for.
func (c *Cache) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.byBody)
}

func (c *Cache) Bytes() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.bytes
}
