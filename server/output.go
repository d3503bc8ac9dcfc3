package server

import "github.com/headgate-io/headgate/resp"

// parts is output of a connection that comes after other output: the pieces of long
// replies, which are not copied.
type parts struct {
	all  [][]byte
	size int // bytes
	held int // memory of the pieces, in bytes
}

// add adds pieces. The list owns them from then on.
func (p *parts) add(pieces ...[]byte) {
	for _, b := range pieces {
		if len(b) > 0 {
			p.all = append(p.all, b)
			p.size += len(b)
			p.held += cap(b)
		}
	}
}

// free drops all pieces.
func (p *parts) free() {
	for _, b := range p.all {
		resp.FreePart(b)
	}
	*p = parts{}
}

// first removes the first piece and returns it, or nil.
func (p *parts) first() []byte {
	if len(p.all) == 0 {
		return nil
	}
	b := p.all[0]
	p.all[0] = nil
	p.all = p.all[1:]
	p.size -= len(b)
	p.held -= cap(b)
	return b
}
