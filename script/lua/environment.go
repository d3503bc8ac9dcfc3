package lua

import (
	"sync"
	"sync/atomic"
)

// Environment holds the globals of scripts: libraries, which are readonly, and variables
// whose values each run sets (KEYS, ARGV).
type Environment struct {
	globals   *Table
	variables map[string]Variable
	strings   *Table // the metatable of strings
	// random is the state of math.random for runs that do not seed it.
	random atomic.Uint64
	frozen sync.Once // scripts that are first compile side by side
}

// Variable is a global that differs from run to run; see Thread.SetGlobal.
type Variable int

// NewEnvironment makes an environment with the basic functions and the
// libraries of Redis's Lua: string, table, math, coroutine, os.clock, cjson,
// struct, bit and cmsgpack.
func NewEnvironment() *Environment {
	e := &Environment{globals: NewTable(0, 64), variables: map[string]Variable{}}
	e.openBase()
	e.openCoroutine()
	e.openLibraries()
	return e
}

// Set adds a global. Tables become readonly with all tables in them.
func (e *Environment) Set(name string, v Value) {
	e.globals.insert(String(name), v)
	freezeAll(v.Table())
}

// Variable declares a global that each run sets.
func (e *Environment) Variable(name string) Variable {
	if v, ok := e.variables[name]; ok {
		return v
	}
	v := Variable(len(e.variables))
	e.variables[name] = v
	return v
}

// freeze makes the globals readonly.
func (e *Environment) freeze() {
	e.frozen.Do(func() {
		e.globals.insert(String("_G"), e.globals.Value())
		freezeAll(e.globals)
	})
}

// freezeAll makes a table and the tables in it readonly.
func freezeAll(t *Table) {
	if t == nil || t.frozen {
		return
	}
	t.frozen = true
	freezeAll(t.meta)
	for key, v, at := t.after(nil, 0); at != 0; key, v, at = t.after(nil, at) {
		freezeAll(key.Table())
		freezeAll(v.Table())
	}
}
