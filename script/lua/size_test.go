package lua

import (
	"runtime"
	"strings"
	"testing"
)

// A script's Size is no less than the memory that it takes, and not much more,
// for any text.
func TestSizeIsWhatAScriptTakes(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	env := newEnvironment()
	for _, statement := range []string{
		"", "a=a ", "f()", "f() ", "f(a) ", "f(...) ", "f=f() ", "a:f() ", "a=a.b ", "a.b=a ", "a[a]=a[a] ", "a=a+1 ", "a=-a*a ", "a=a..a ",
		"a=a and a or a ", "a=a<a ", "a,f=f,a ", "x=x ", "x() ", "math.floor(a) ", "tostring(a) ", "a={a=1} ", "a={1,2,3} ", "a={{{}}} ",
		"do end ", "while a do end ", "if a then end ", "for i=1,2 do end ", "for a in a do end ", "repeat until a ",
		"function f() end ", "function f() return a, b, f end ", "a='x\\ny' ", "a=[[x]] ", "if a==1 then f(a) elseif a then a=2 else a=3 end ",
		"local n = tonumber(x.call('get', a)) if n == nil then n = 1 end x.call('setex', a, 10, n - 1) return n ",
	} {
		for _, n := range []int{1, 50, 3000} {
			body := strings.Repeat(statement, n)
			if strings.Contains(statement, "return n ") {
				body = strings.Repeat("do "+statement+"end ", n)
			}
			text := "local a, b, f " + body
			copies := 3000/n + 2
			protos := make([]*Proto, copies)
			before := heap()
			for i := range protos {
				p, err := env.Compile(text)
				if err != nil {
					t.Fatal(statement, err)
				}
				protos[i] = p
			}
			took := int(heap()-before) / copies
			size := protos[0].Size() + 1024 // as the cache has it
			if size < took || size > 20*took+2*1024 {
				t.Errorf("%d times %q: the size is %d, and it takes %d", n, statement, size, took)
			}
			runtime.KeepAlive(protos)
		}
	}
}

// heap is how many bytes are in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A long text is compiled with pauses, in which others may go first.
func TestLongTextsPause(t *testing.T) {
	pauses := 0
	_, err := NewEnvironment().CompilePausing(strings.Repeat("x = 1 ", 10_000), func() { pauses++ })
	if err != nil || pauses < 20 {
		t.Fatal(err, pauses)
	}
}
