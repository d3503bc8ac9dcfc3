package policies

// ownFile is the file of this node.
type ownFile struct{ path, hash string }

// Own sets this node's file. The book warns when another file replaces it.
func (b *Book) Own(path string, text []byte) { b.file.Store(&ownFile{path, hashOf(text)}) }

// fileDiffers reports whether the policies in force come from another file than this
// node's.
func (b *Book) fileDiffers() bool {
	own := b.file.Load()
	if own == nil {
		return false
	}
	st, err := decodeFileState(b.record(fileRecord))
	return err == nil && st.Text != own.hash
}

// warnOfFile warns when another node's file replaces this node's.
func (b *Book) warnOfFile(was, is []byte) {
	own := b.file.Load()
	before, err := decodeFileState(was)
	if own == nil || err != nil {
		return
	}
	if st, err := decodeFileState(is); err == nil && st.Text != before.Text && st.Text != own.hash {
		b.log.Warn("the policies in force come from another node's file, not from this node's file",
			"file", own.path, "in_force", st.Path, "node", st.Node)
	}
}
