package lua

// openLibraries adds the libraries that need nothing of the evaluator but its
// values.
func (e *Environment) openLibraries() {
	text := stringLibrary()
	e.Set("string", text.Value())
	e.strings = NewLibrary(Entry{"__index", text.Value()})
	freezeAll(e.strings)
	e.Set("table", tableLibrary().Value())
	e.Set("math", mathLibrary().Value())
	e.random.Store(firstRandom)
	e.Set("cjson", cjsonLibrary().Value())
	e.Set("struct", structLibrary().Value())
	e.Set("bit", bitLibrary().Value())
	e.Set("cmsgpack", cmsgpackLibrary().Value())
}
