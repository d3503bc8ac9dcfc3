package script

import (
	"container/list"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"github.com/headgate-io/headgate/script/lua"
	"github.com/headgate-io/headgate/script/native"
)

// MaxBody is the longest text of a script, in bytes.
const MaxBody = 512 << 10

// ErrTooLarge is returned for a text that is too long.
var ErrTooLarge = errors.New("a script is longer than 512 KiB")

// Script is a text that has been compiled.
type Script struct {
	Body string
	// SHA is the SHA1 of Body in lower-case hex: its name.
	SHA   string
	Flags Flags
	// Native is the Go code that can run instead of the text; nil if the script is not a
	// known script.
	Native *native.Script
	// Runs counts the runs of the script.
	Runs Runs

	proto *lua.Proto

	// shelf is the list of the Cache in which the script is, and place is the script's
	// place there. Cache.mu guards both.
	shelf *shelf
	place *list.Element
	// used is set if a client has used the script since the shelf last looked at the
	// script.
	used atomic.Bool
	// stored is the last generation of the Store that had the text, or neverStored.
	stored atomic.Uint64
}

const neverStored = math.MaxUint64

// scriptOverhead is the memory of a script in addition to its text and its compiled form.
const scriptOverhead = 1 << 10

// Size returns an upper estimate of the script's memory, in bytes.
func (s *Script) Size() int { return len(s.Body) + s.proto.Size() + scriptOverhead }

// Digest returns the SHA1 of text in lower-case hex.
func Digest(text []byte) string {
	sum := sha1.Sum(text)
	return hex.EncodeToString(sum[:])
}

// digestLength is the length of a Digest.
const digestLength = 2 * sha1.Size

// Cache finds scripts by text and by SHA1. Scripts of EVAL and scripts of SCRIPT LOAD have
// separate shelves, of 5000 scripts and 32 MiB each, so that neither displaces the other.
// When a shelf is full, its least recently used scripts are dropped. So no client can keep
// other clients' scripts out.
type Cache struct {
	env   *Environment
	store Store

	// mu guards the fields below.
	mu     sync.RWMutex
	byBody map[string]*Script
	bySHA  map[string]*Script
	// evaluated has the scripts that came with EVAL, loaded has the scripts that came with
	// SCRIPT LOAD.
	evaluated, loaded shelf
	gone              RunTotals // of scripts no longer in the cache
}

// Store keeps the texts of scripts in a place that outlives the process, such as a
// cluster's replicated state.
type Store interface {
	// Kept reports whether texts are kept at all. If not, the Cache has all texts.
	Kept() bool
	// Generation changes whenever a text may be gone.
	Generation() uint64
	// Holds reports whether the store has the text of a SHA1 (lower-case hex).
	Holds(sha string) bool
	// Text returns the text with a SHA1 (lower-case hex), and whether it came with SCRIPT
	// LOAD.
	Text(sha string) (body string, loaded, ok bool)
}

// NewCache returns an empty cache of scripts that run in env. It asks store for texts
// that it does not know.
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

// BySHA returns the script with a SHA1 in hex, in upper or lower case, or nil. If only the
// Store has the text, it compiles the text. If such a text is longer than most bytes, it
// returns nil and sets long.
func (c *Cache) BySHA(sha []byte, most int) (s *Script, long bool) {
	var lower [digestLength]byte
	if !lowerSHA(&lower, sha) {
		return nil, false
	}
	c.mu.RLock()
	s = c.bySHA[string(lower[:])]
	c.mu.RUnlock()
	if s = c.current(s); s != nil || !c.store.Kept() {
		return s, false
	}
	gen := c.store.Generation()
	body, loaded, ok := c.store.Text(string(lower[:]))
	if !ok || len(body) > most {
		return nil, ok
	}
	if s, _, _ = c.Load([]byte(body), loaded); s != nil {
		s.stored.Store(gen)
	}
	return s, false
}

// Knows reports whether a script with a SHA1 in hex, in any case, exists.
func (c *Cache) Knows(sha []byte) bool {
	var lower [digestLength]byte
	if !lowerSHA(&lower, sha) {
		return false
	}
	c.mu.RLock()
	s := c.bySHA[string(lower[:])]
	c.mu.RUnlock()
	return c.current(s) != nil || c.store.Kept() && c.store.Holds(string(lower[:]))
}

// lowerSHA writes sha in lower case, and returns false if it is not a SHA1.
func lowerSHA(lower *[digestLength]byte, sha []byte) bool {
	if len(sha) != digestLength {
		return false
	}
	for i, b := range sha {
		if b-'A' <= 'Z'-'A' {
			b += 'a' - 'A'
		}
		lower[i] = b
	}
	return true
}

// current returns s if its text is in the Store. It returns nil if the text is gone:
// another node has executed SCRIPT FLUSH.
func (c *Cache) current(s *Script) *Script {
	if s == nil {
		return nil
	}
	if gen := c.store.Generation(); s.stored.Load() != gen && c.store.Kept() {
		if !c.store.Holds(s.SHA) {
			return nil
		}
		s.stored.Store(gen)
	}
	if !s.used.Load() {
		s.used.Store(true)
	}
	return s
}

// Load adds a text, and compiles it unless it is already compiled. keep is true for SCRIPT
// LOAD. dropped holds the SHA1s of the scripts that were dropped to make room. The error is
// ErrTooLarge, or has Redis's text.
func (c *Cache) Load(body []byte, keep bool) (s *Script, dropped []string, err error) {
	return c.LoadPausing(body, keep, nil)
}

// LoadPausing does the same as Load, and calls pause from time to time while it compiles.
func (c *Cache) LoadPausing(body []byte, keep bool, pause func()) (s *Script, dropped []string, err error) {
	c.mu.RLock()
	s = c.byBody[string(body)]
	c.mu.RUnlock()
	if s == nil {
		if s, err = c.compile(string(body), pause); err != nil {
			return nil, nil, err
		}
	}
	if !keep {
		// Another node may have loaded the text with SCRIPT LOAD. Ask the Store without
		// holding mu, because the Store may have to wait for mu.
		_, keep, _ = c.store.Text(s.SHA)
	}
	s, dropped = c.add(s, keep)
	return s, dropped, nil
}

func (c *Cache) compile(body string, pause func()) (*Script, error) {
	if len(body) > MaxBody {
		return nil, ErrTooLarge
	}
	flags, code, err := shebang(body)
	if err != nil {
		return nil, err
	}
	proto, err := c.env.lua.CompilePausing(code, pause)
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

// chunkName is the name of a script in errors.
const chunkName = "@user_script"

// add puts s on its shelf, or returns the script that is already there.
func (c *Cache) add(s *Script, keep bool) (_ *Script, dropped []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	on := &c.evaluated
	if keep {
		on = &c.loaded
	}
	if old := c.byBody[s.Body]; old != nil {
		s = old
		if !keep || s.shelf == on {
			return s, nil
		}
		s.shelf.take(s)
	}
	for _, gone := range on.makeRoom(s.Size()) {
		delete(c.byBody, gone.Body)
		delete(c.bySHA, gone.SHA)
		c.gone.Add(gone.Runs.Totals())
		dropped = append(dropped, gone.SHA)
	}
	c.byBody[s.Body], c.bySHA[s.SHA] = s, s
	on.put(s)
	return s, dropped
}

// Loaded reports whether a client has asked to keep the script.
func (c *Cache) Loaded(s *Script) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return s.shelf == &c.loaded
}

// KeepHere makes the Cache find s although the Store does not have its text, until a text
// of the Store may be gone. After that, clients must send the text again.
func (c *Cache) KeepHere(s *Script) { s.stored.Store(c.store.Generation()) }

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
	for _, s := range c.bySHA {
		c.gone.Add(s.Runs.Totals())
	}
	clear(c.byBody)
	clear(c.bySHA)
	c.evaluated, c.loaded = shelf{}, shelf{}
}

// Len returns the number of scripts, and Bytes their memory.
func (c *Cache) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.byBody)
}

func (c *Cache) Bytes() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.evaluated.bytes + c.loaded.bytes
}
