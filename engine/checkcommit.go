package engine

import (
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// commit writes every plan. It first makes room for all, so that a full table fails the
// call before any limit is charged. A limit that is not enforced, or counts a denied
// call, is skipped if there is no room.
//
// Usually each counter exists, keeps its size and has no mark.
func (st *checking) commit(s *Session, now int64, checks []Check, passed bool) error {
	marked := false
	for i := range st.weighed {
		w := &st.weighed[i]
		if !w.write || w.found && w.ent.Words() == w.words && !w.leased {
			continue
		}
		marked = true
		if err := st.reserve(s, w, now); err != nil {
			if passed && checks[i].Mode == algo.Enforce {
				st.unreserve(s, i)
				return err
			}
			w.err, w.write = err, false
		}
	}
	for i := range st.weighed {
		w := &st.weighed[i]
		if !w.write {
			continue
		}
		sh := s.e.table.At(w.hash)
		var err error
		if marked { // some may have a mark
			err = st.storeMarked(s, w, sh, now)
		} else {
			err = s.storeCheck(w, sh, now)
		}
		if err != nil {
			if passed && checks[i].Mode == algo.Enforce {
				return err
			}
			w.err = err
		}
	}
	return nil
}

// reserve makes room for the state of w, without charging anything.
func (st *checking) reserve(s *Session, w *weighed, now int64) error {
	sh := s.e.table.At(w.hash)
	st.findAgain(s, w, sh)
	s.noteMark(w, now)
	words := w.need()
	if w.found && w.ent.Words() >= words {
		return nil
	}
	st.moved = true
	if w.found {
		return w.resize(sh, words, now)
	}
	defer s.claim(w).refs.Add(-1)
	if _, err := sh.Insert(w.hash, w.key, w.it.id, words, w.next.Deadline, now); err != nil {
		return err
	}
	w.it.refer(sh)
	w.created = true
	return nil
}

// findAgain finds the counter of w again if making room may have moved or evicted it.
func (st *checking) findAgain(s *Session, w *weighed, sh *shard.Shard) {
	if st.moved {
		w.ent, w.found = sh.Find(w.hash, w.key)
		w.own = w.found && s.e.limits.get(w.ent.Meta()) == w.it
	}
}

// unreserve deletes the records that reserve has created for the limits before n.
func (st *checking) unreserve(s *Session, n int) {
	for i := range n {
		w := &st.weighed[i]
		if !w.created {
			continue
		}
		sh := s.e.table.At(w.hash)
		if ent, ok := sh.Find(w.hash, w.key); ok {
			sh.Delete(ent)
		}
	}
}

// storeCheck writes the plan of w. The shard must be locked, and w.ent must be what Find
// returns for the key.
func (s *Session) storeCheck(w *weighed, sh *shard.Shard, now int64) error {
	if w.own {
		return s.put(w, sh, now)
	}
	if w.foreign {
		s.e.replaced.Add(1)
	}
	// A record that has the limit refers to it. For another record, take a reference
	// first: if the policy has been replaced meanwhile, no other may exist.
	it := s.claim(w)
	err := s.put(w, sh, now)
	it.refs.Add(-1)
	return err
}

// put is storeCheck if the limit of w already has a reference.
func (s *Session) put(w *weighed, sh *shard.Shard, now int64) error {
	if w.counted == 0 && w.ring == nil {
		return s.commit(&w.plan, sh, now)
	}
	if err := s.place(&w.plan, sh, w.words, w.next.Deadline, now); err != nil {
		return err
	}
	w.storeLog(now)
	return nil
}

// storeLog writes the planned log of w to its record, which has room for it.
func (w *weighed) storeLog(now int64) {
	log := w.ent.State()
	if !w.live || w.ring != nil {
		clear(log[copy(log, w.ring):])
	}
	if w.counted == 0 {
		w.it.Apply(log, now, w.d.Allowed)
	} else {
		w.it.ApplyCount(log, now, w.counted, w.opts.Debt)
	}
}

// claim takes a reference to the limit of w, for a record that is about to carry the
// limit's id. If the limit was released and forgotten, claim interns it again. To forget
// a limit, one atomic operation finds refs 0 and makes it far negative.
func (s *Session) claim(w *weighed) *interned {
	if w.it.refs.Add(1) <= 0 {
		w.it = s.e.limits.acquireReplicated(w.it.Limit)
	}
	return w.it
}
