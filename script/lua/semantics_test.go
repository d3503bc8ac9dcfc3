package lua

const chunks = `
return
return nil
return nil, nil
return 1, 'a', true, false, nil
return 1, 2.5, 1e15, 1e14, 123456789012345, 1234567890123456, -0.1, 1/3, 100/3, 2^53, 1e100, 1e-7, 5e-324
return 1/0, -1/0, 0/0, -(0/0), math.huge, -math.huge
return 0x10, 0xff, 0XA, 010, 1e2, 1E+2, 1e-2, .5, 5., 3.14
return 7 % 3, -7 % 3, 7 % -3, -7 % -3, 5.5 % 2, 5 % 0, 5 % math.huge, -5 % math.huge
return 2^10, 2^0.5, 2^-1, (-8)^(1/3), -2^2, 2^3^2, 2^-3^2
return 1 + 2 * 3 - 4 / 2, (1 + 2) * 3, 10 - 2 - 3, 2 * 3 % 4, -3 ^ 2
return '10' + 5, '0x10' + 0, ' 10 ' * 2, '1e2' / 1, -'2', '3' ^ '2', '7' % 4
return 1 .. 2, 'a' .. 1 .. 'b' .. 2.5, 1e15 .. '', -1 .. '', 0.1 .. ''
return '1' == 1, 1 == 1.0, 'a' == 'a', nil == false, 0 == -0
return 1 < 2, 'a' < 'b', 'a' < 'B', '' < 'a', 'a' <= 'a', 'Z' < 'a', 'a\0b' < 'a\0c', 2 >= 2, 3 > 4
return not -0, 1/0
local x = not (-0) return x, 1/0
local x = not not -0 return x, 1/0
if -0 then end return 1/0
if not -0 then end return 1/0
while -0 do break end return 1/0
repeat until -0 return 1/0
local x = -0 and 1 return x, 1/0
local x = -0 or 1 return x, 1/0
local x = nil or -0 return x, 1/0
local x local y = not (x and -0) return y, 1/0
local x local y = not (x or -0) return y, 1/0
local x local y = not (-0 or x) return y, 1/0
local x if x or -0 then end return 1/0
local x if -0 or x then end return 1/0
local x if x and -0 then end return 1/0
local x if -0 == x then end return 1/0
local x = not (-0 == 1) return x, 1/0
local x = -0 return x, 1/0
local x = #'' + -0 return x, 1/0
local x = {-0} return 1/0
local x = 1 + -0 return x, 1/0
return 1 and 2, nil and 1, false or 3, nil or false, 1 or error('x'), not nil, not 0, not ''
return 1 == 1 and 'y' or 'n', nil == 1 and 'y' or 'n'
return #'abc', #'', #{1,2,3}, #{}, #{1,2,nil,4}, #{nil}, #{nil,nil,3}, #{1,nil,3}, #{1,nil}, #{n=1}
return #{1,2,3,nil,5,nil}, #{nil,2}, #{nil,2,nil}, #{1,2,nil,nil,5}, #{1,nil,nil,nil,5}
local t = {} t[1]=1 t[2]=2 t[4]=4 return #t
local t = {} for i=1,10 do t[i]=i end t[5]=nil return #t
local t = {nil, 1, 1, 1} for i = 0, 60 do t[5 * 2 ^ i] = 1 end t[-3 * 2 ^ 61] = 1 t[2 ^ 62] = 1 t[-2 ^ 63] = 1 t[0] = 1 return #t
local t = {nil, 1, 1, 1} for i = 0, 60 do t[5 * 2 ^ i] = 1 end t[-3 * 2 ^ 61] = 1 t[2 ^ 62] = 1 t[-2 ^ 63] = 1 t[0] = 1 t[1] = 1 for i = 6, 99 do t[i] = i end t[50] = nil return #t
local t = {} for i=1,10 do t[i]=i end t[10]=nil t[9]=nil return #t
local t = {1,2,3,4} t[4]=nil t[3]=nil return #t
local t = {1,2,3,4,5} t[2]=nil t[5]=nil return #t
local t = {10,20,30,nil} return #t
local t = {n=1,10,20,nil,40} t[6]=1 return #t
local t = {} t[3]=1 t[2]=1 t[1]=1 return #t
local function f() return 1,2,3 end return #{f()}, #{f(),f()}, #{(f())}, #{f(),nil}
local a, b, c = 1 return a, b, c
local a, b = 1, 2, 3 return a, b
local function f() return 1, 2, 3 end local a, b, c, d = 0, f() return a, b, c, d
local function f() return 1, 2, 3 end local a, b, c, d = f(), 10 return a, b, c, d
local function f() end return f()
local function f() end return (f())
local function f() end local a, b = f() return a, b
local function f() return 1, 2, 3 end return (f())
local function f() return 1, 2, 3 end return f(), f()
local function f() return 1, 2, 3 end return {f(), f()}[1]
local function f(...) return select('#', ...), ... end return f(nil, nil)
local function f(...) local a, b = ... return a, b end return f(1)
local function f(...) return ... end return f(1, nil, 3, nil)
local function f(...) return (...) end return f(1, 2)
local function f(...) local t = {...} return #t, t[1] end return f(4, 5)
local function f(...) return arg.n, arg[1], arg[2] end return f('x', 'y')
local function f(...) local x = ... return arg end return f('x', 'y')
local function f(a, ...) return a, arg.n end return f('x', 'y', nil)
return ...
return select('#', ...)
return arg
local a, b = 1, 2 a, b = b, a return a, b
local t = {1,2} local i = 1 i, t[i] = i+1, 20 return i, t[1], t[2]
local t = {} t.x, t.y = 1 return t.x, t.y
local a = {} a.b = {} a.b.c = 5 return a.b.c, a['b']['c']
local x = 1 do local x = 2 end return x
local x = 1 local x = x + 1 return x
local s = 0 for i = 1, 10 do s = s + i end return s
local s = '' for i = 10, 1, -3 do s = s .. i .. ' ' end return s
local s = '' for i = 1, 2, 0.25 do s = s .. i .. ' ' end return s
local s = 0 for i = 1, 0 do s = s + 1 end return s
local s = 0 for i = 1, 10 do if i > 5 then break end s = s + i end return s
for i = '1', '3' do return i, type(i) end
for i = 1, 3 do local j = i i = 10 if j == 3 then return i end end
for i = 'a', 3 do end
for i = 1, {} do end
for i = 1, 2, nil do end
for i = 1, 2, 0 do return 'zero' end
local i = 0 while true do i = i + 1 if i == 5 then break end end return i
local i = 0 repeat local j = i i = i + 1 until j >= 3 return i
local n = 0 for k, v in pairs({1,2,3,a=1,b=2}) do n = n + v end return n
local s = '' for i, v in ipairs({1,2,nil,4}) do s = s .. i .. v end return s
for k in 5 do end
for k in nil do end
for k, v in next, {10} do return k, v end
local function it(s, c) if c < s then return c + 1, c * 2 end end local r = '' for a, b in it, 3, 0 do r = r .. a .. b end return r
local fs = {} for i = 1, 3 do fs[i] = function() i = i + 1 return i end end return fs[1](), fs[1](), fs[2](), fs[3]()
local function c() local n = 0 return function() n = n + 1 return n end, function() return n end end local a, b = c() a() a() return b()
local function fact(n) if n <= 1 then return 1 end return n * fact(n - 1) end return fact(20), fact(25)
local function loop(n) if n == 0 then return 'done' end return loop(n - 1) end return loop(100000)
local t = {} function t.f(x) return x end function t:g(x) return self == t, x end return t.f(1), t:g(2)
local t = {a={b={}}} function t.a.b.f() return 1 end function t.a.b:m() return self == t.a.b end return t.a.b.f(), t.a.b:m()
local f = function(a, b) return a, b end return f(1), f(1, 2, 3)
return type(nil), type(1), type('x'), type({}), type(type), type(print)
return type()
return tostring(nil), tostring(true), tostring(12), tostring('x'), tostring(-0.0)
return tostring()
return tonumber('10'), tonumber('0x1p4'), tonumber('  5  '), tonumber('5x'), tonumber(''), tonumber(' '), tonumber('1e'), tonumber('1e5'), tonumber({}), tonumber(nil)
return tonumber('ff', 16), tonumber('zz', 36), tonumber('8', 8), tonumber('-7', 8), tonumber('1010', 2), tonumber('0xff', 16), tonumber(10, 16)
return tonumber('1', 1)
return tonumber('1', 37)
return tonumber()
return tonumber('inf'), tonumber('nan'), tonumber('5e-07'), tonumber('12345678901234567890'), tonumber('1_000')
return select(2, 'a', 'b', 'c')
return select(-1, 'a', 'b', 'c')
return select(-5, 'a')
return select(0)
return select('#')
return select('x')
return unpack({1,2,3})
return unpack({1,2,3}, 2)
return unpack({1,2,3}, 2, 5)
return unpack({1,2,3}, 3, 1)
return unpack({}, 1, 1e8)
return select('#', unpack({}, 1, 7990))
return select('#', unpack({}, 1, 7997)), pcall(unpack, {}, 1, 7998)
return #{unpack({}, 1, 7997)}, select('#', unpack({}, -7996, 0)), pcall(unpack, {}, -7997, 0)
local t = {} for i = 1, 7998 do t[i] = 7 end return select('#', unpack(t)), select('#', unpack(t, 1))
local t = {} for i = 1, 7999 do t[i] = 7 end return select('#', unpack(t)), pcall(unpack, t, 1)
local t = {} for i = 1, 8000 do t[i] = 7 end return pcall(unpack, t)
local t = {} for i = 1, 7997 do t[i] = 65 end return #string.char(unpack(t, 1, 7997)), #{unpack(t)}
local t = {} for i = 1, 7999 do t[i] = 7 end return #{unpack(t)}, pcall(unpack, t, 1, 7997, 1)
return pcall(unpack, {}, 1, 2147483647)
return pcall(unpack, {}, 0, 2147483647)
return pcall(unpack, {}, -1, 2147483647)
return pcall(unpack, {}, -2147483648, 2147483647)
return pcall(unpack, {}, -2147483648, -1)
return #cmsgpack.pack(unpack({}, 1, 4000)), pcall(cmsgpack.pack, unpack({}, 1, 4001))
return unpack()
return rawequal('a', 'a'), rawequal({}, {}), rawequal(1, '1')
return rawget({5}, 1), rawget({}, 'x')
return rawset({}, 'x', 5).x
return rawset({}, nil, 5)
return next({}), next({5}), next({a=1})
return next({}, 'x')
return pcall(error), pcall(error, nil), pcall(error, 'x'), pcall(error, {}), pcall(error, 5)
return pcall(error, 'x', 0), pcall(error, 'x', 1), pcall(error, 'x', 2)
return pcall(function() error('x') end)
return pcall(function() error('x', 0) end)
return pcall(function() error('x', 1) end)
return pcall(function() error('x', 2) end)
return pcall(function() error('x', 3) end)
return pcall(function() error(12) end)
return pcall(function() error({code=1}) end)
return pcall(function() error() end)
local function f() error('deep', 2) end ¶ local function g() ¶ f() ¶ end ¶ return pcall(g)
local function f() error('deep', 3) end ¶ local function g() ¶ f() ¶ end ¶ local function h() ¶ g() ¶ end ¶ return pcall(h)
local function f() error('deep', 2) end ¶ local function g() ¶ return f() ¶ end ¶ return pcall(g)
return pcall(pcall)
return pcall(5)
return pcall(nil)
return pcall(pcall, error, 'x')
local t = setmetatable({}, {__newindex = function() return 1 end}) t[t.x] = 1
local t = setmetatable({}, {__newindex = function() return 1 end}) t[0/0] = 1
local t = setmetatable({}, {__newindex = function() end}) t.x = 1 t.y = 2 rawset(t, 'z', 3) return next(t), next(t, 'x')
local c = {} return (false or c) + 1
local c = {} return (1 and c) .. ''
local function f() return 1, 2 end return true and f()
local c = {} local function f() c = 1 return 5 end c, c.k = 1, f() return c
local b = 1 local function f() b = 10 return 1 end return b + f()
local b = 1 local function f() b = 10 return 1 end return b .. f(), b
local b = 1 local function f() b = 10 return 1 end return (b) < f(), b
local b = 1 local function f() b = 10 return 1 end return 1 + b + f()
local b = {1} local function f() b = {10} return 1 end return b[f()]
local b = {1} local c = b local function f() b = {10} return 1 end b.x = f() return b.x, c.x
local b = {1} local c = b local function f() b = {10} return 1, 2 end b.x, c.y = f() return b.x, c.x, c.y
local b = {1} local c = b local function f() b = {10} return 1, 2 end b.x, b = f() return b, c.x
local k, t = 'a', {} local function f() k = 'b' return 1 end t[k] = f() return t.a, t.b
local k, t = 'a', {} local function f() k = 'b' return 1, 2 end t[k], t.z = f() return t.a, t.b
local b = 1 local function f() b = 10 return 1 end local function g() return b + f() end return g()
for i = 1, 3 do local f = function() i = i + 5 return i end return i + f() end
return tostring(-0), tostring(0), tostring(-0)
local a = 0 return tostring(-0), tostring(0)
local a = -0 local f = function() return 0 end return tostring(0), tostring(f()), ({[0]=1})[-0], 0 - 0, -0 + 0
local a = 0 for i = -0, 0 do return i end
return pcall(function() error({err='e'}) end)
return pcall(function() error({err=5}) end)
return pcall(function() error({err={}}) end)
return pcall(pcall, error, {err='e'})
return pcall(error, 'x', 3), pcall(pcall, error, 'x', 3)
local function f() error('x', 3) end ¶ return pcall(f)
local function f() error('x', 2) end ¶ local t = setmetatable({}, {__index = f}) ¶ return t.x
local function f() error('x', 3) end ¶ local function g() return f() end ¶ return pcall(g)
return (string.gsub('abc', '.', function() error('in', 2) end))
return (string.gsub('abc', '.', function() error('in') end))
return xpcall(function() error('x') end, function(m) return 'handled ' .. m end)
return xpcall(function() return 1, 2 end, function() end)
return xpcall(function() error('x') end, function(m) error('again') end)
return xpcall(function() local x = nil; return x.y end, function(m) return m end)
return xpcall()
return xpcall(function() end)
return assert(1, 2, 3)
return assert(false)
return assert(nil, 'message')
return assert(false, {})
return assert()
local t = setmetatable({}, {__index = {x = 1}}) return t.x, t.y
local t = setmetatable({}, {__index = function(t, k) return k .. '!' end}) return t.x, t[1]
local t = setmetatable({}, {__newindex = function(t, k, v) rawset(t, k, v * 2) end}) t.x = 5 t.x = 6 return t.x
local s = {} local t = setmetatable({}, {__newindex = s}) t.x = 5 return rawget(t, 'x'), s.x
local t = setmetatable({}, {__call = function(self, ...) return self, select('#', ...), ... end}) return t(1, nil)
local m = {__add = function(a, b) return 'add' end, __sub = function() return 'sub' end, __mul = function() return 'mul' end, __div = function() return 'div' end, __mod = function() return 'mod' end, __pow = function() return 'pow' end, __unm = function() return 'unm' end, __concat = function() return 'concat' end} local t = setmetatable({}, m) return t + 1, 1 - t, t * t, t / 1, t % 1, 2 ^ t, -t, t .. 'x', 'x' .. t, 1 .. t
local m = {__concat = function(a, b) return (type(a) == 'table' and 'T' or a) .. '|' .. (type(b) == 'table' and 'T' or b) end} local t = setmetatable({}, m) return 'a' .. 'b' .. t .. 'c' .. 'd'
local m = {__eq = function() return true end} local a, b = setmetatable({}, m), setmetatable({}, m) return a == b, a ~= b, a == 1, rawequal(a, b)
local a = setmetatable({}, {__eq = function() return true end}) local b = setmetatable({}, {__eq = function() return true end}) return a == b
local m = {__lt = function(a, b) return a.v < b.v end} local a, b = setmetatable({v=1}, m), setmetatable({v=2}, m) return a < b, a > b, a <= b, a >= b
local m = {__le = function(a, b) return 'x' end} local a, b = setmetatable({v=1}, m), setmetatable({v=2}, m) return a <= b, a >= b
local m = {__le = function(a, b) return 'x' end} local a, b = setmetatable({v=1}, m), setmetatable({v=2}, m) return a < b
local t = setmetatable({}, {__tostring = function() return 'TT' end}) return tostring(t)
local t = setmetatable({}, {__tostring = function() return 5 end}) return tostring(t)
local t = setmetatable({}, {__tostring = function() return {} end}) return tostring(t)
local t = setmetatable({}, {__len = function() return 42 end}) return #t
local t = setmetatable({}, {__metatable = 'locked'}) return getmetatable(t), pcall(setmetatable, t, {})
return getmetatable('x').__index == string, getmetatable(1), getmetatable({})
return setmetatable({}, 5)
return setmetatable({})
return setmetatable(5, {})
return ('x'):rep(3), ('abc'):upper(), ('%d'):format(5), #('abc'):sub(2)
return ('x'):nope()
return ('x').len, ('x').y
local t = setmetatable({}, {__index = function(t, k) error('no ' .. k) end}) return t.foo
local t = {} t[nil] = 1
local t = {} t[0/0] = 1
local t = {} return t[nil], t[0/0]
local t = {} t.x.y = 1
local x ¶ x.y = 1
local x ¶ return x.y
local x ¶ return x[1]
local x = 5 return x.y
local x = 5 x.y = 1
local t = {} return t.a.b.c
local t = {a={}} return t.a.b.c
local t = {} return t[1][2]
local t = {} local k = 'z' return t[k].x
local x return x()
local t = {} return t.f()
local t = {} return t:f()
local t = {} return t.a.f()
local t = {} return t[1]()
return (1)()
return ('x')()
return ({})()
local function f() return x1() end return f()
local x = nil local function f() return x() end return f()
local x = nil local function f() return x.y end return f()
local x = nil local function f() return x + 1 end return f()
return nil + 1
return 1 + nil
return {} + 1
return 'a' + 1
return 1 + 'a'
local t = {} return t.x + 1
local t = {} return 1 + t.x
local t = {} return t[1] * 2
local x return x - 1
local x return 5 % x
local x return -x
return -{}
return -'a'
local t = {} return t.x .. 'a'
local t = {} return 'a' .. t.x
local x return 'a' .. x .. 'b'
local x return x .. x
return 'a' .. {}
return {} .. 'a'
return true .. ''
return 'a' .. nil .. 'b'
local x return #x
return #5
return #nil
local t = {} return #t.x
return 1 < 'a'
return 'a' < 1
return {} < {}
return nil < 1
return 1 <= nil
return 1 > nil
return {} >= 1
return true < false
return function() end < function() end
return x
return x.y
return x()
x = 1
x, y = 1, 2
function foo() end
_G.x = 1
return _G.x
return _G['nope']
return rawget(_G, 'nope')
string.x = 1
string = nil
string.len = nil
table.insert(_G, 1)
rawset(string, 'x', 1)
setmetatable(_G, {})
setmetatable(string, {})
getmetatable('').__index = nil
return pcall(rawset, _G, 'a', 1)
return type(_G), _G._G == _G, _G.string == string
return math.floor('x')
return math.floor()
return math.floor({})
return string.rep()
return ('x'):rep()
return ('x'):rep({})
return ('x').rep(1, {})
local f = math.floor return f('x')
local t = {f = math.floor} return t.f('x')
local t = {f = math.floor} return t:f()
return pcall(math.floor, 'x')
return (function() return math.floor('x') end)()
local function f() return math.floor('x') end return pcall(f)
return ('x'):bad()
return type(tostring(setmetatable({}, {__index = tostring}).x))
local function f() return f() + 1 end
local function f() return 1 + f() end return pcall(f)
local function f() return f() end local n = 0 local function g() n = n + 1 if n > 50000 then return n end return g() end return g()
local function f(n) return pcall(n == 0 and error or f, n - 1) end return select('#', f(10))
local function f(n) if n == 0 then return 'end' end local ok, v = pcall(f, n - 1) return v end return f(150)
local function f(n) local ok, v = pcall(f, n + 1) if not ok then return n .. v end return v end return f(1)
local function f(n) local ok, v = pcall(f, n + 1) if not ok then error(v, 0) end return v end return f(1)
local t = {} t.x = 1 t.x = nil return next(t)
local t = {} for i = 1, 100 do t['k' .. i] = i end local s = '' for k, v in pairs(t) do s = s .. k .. ' ' end return s
local t = {} for i = 1, 50 do t[i * 7 % 101] = i end local s = '' for k, v in pairs(t) do s = s .. k .. ' ' end return s
local t = {a=1,b=2,c=3,d=4,e=5,10,20,30} t.a = nil t.f = 6 local s = '' for k, v in pairs(t) do s = s .. k .. '=' .. v .. ' ' end return s
local t = {x=1,y=2,z=3} for k in pairs(t) do t[k] = nil end return next(t)
local t = {x=1,y=2,z=3} local n = 0 for k in pairs(t) do t[k] = 5 n = n + 1 end return n
local t = {[1.5]=1,[2^53]=2,[-1]=3,[0]=4,[true]=5,[false]=6} local s = '' for k, v in pairs(t) do s = s .. tostring(k) .. '=' .. v .. ' ' end return s
local t = {} for i = 10, 1, -1 do t[i] = i end local s = '' for k in pairs(t) do s = s .. k .. ' ' end return s
local t = {} for i = 1, 20 do t[i] = i end for i = 1, 15 do t[i] = nil end t.x = 1 t.y = 2 local s = '' for k in pairs(t) do s = s .. k .. ' ' end return s, #t
local t = {['a']=1, 'x', ['b']=2, 'y'; 'z'} return #t, t[1], t[2], t[3], t.a, t.b
local t = {[1]='a', 'b'} return t[1]
local t = {'b', [1]='a'} return t[1]
return coroutine.resume(coroutine.create(function(a, b) return a + b end), 1, 2)
local c = coroutine.create(function(a) local b = coroutine.yield(a * 2) local d, e = coroutine.yield(b * 3) return d + e end) return coroutine.resume(c, 1), select(2, coroutine.resume(c, 2)), select(2, coroutine.resume(c, 3, 4)), coroutine.status(c), coroutine.resume(c)
local c = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end) return c(), c(), c()
local c = coroutine.wrap(function() error('oops') end) return c()
local c = coroutine.wrap(function() error({}) end) return c()
local c = coroutine.create(function() error('oops') end) return coroutine.resume(c)
local c = coroutine.wrap(function() return 1 end) c() return c()
return coroutine.yield(1)
return coroutine.status(5)
return coroutine.create(5)
return coroutine.create(print)
return coroutine.running()
local c c = coroutine.create(function() return coroutine.status(c), coroutine.running() == c end) return coroutine.resume(c)
local c c = coroutine.create(function() return coroutine.resume(c) end) return coroutine.resume(c)
local c = coroutine.create(function() pcall(coroutine.yield, 1) end) return coroutine.resume(c)
local c = coroutine.create(function() return pcall(function() coroutine.yield(1) end) end) return coroutine.resume(c)
local c = coroutine.wrap(function() for k in coroutine.wrap(function() coroutine.yield(1) end) do coroutine.yield(k) end end) return c()
local c = coroutine.wrap(function() local t = setmetatable({}, {__index = function(t, k) return coroutine.yield(k) end}) return t.x end) return c()
return loadstring('return 1 + 1')()
return loadstring('return ...')(1, 2)
return loadstring('x =')
return loadstring('x =', '=name')
return loadstring('x =', '@file')
return loadstring('¶x =')
return loadstring('local a = 1; error("e")')()
return loadstring('error("e")', '=chunk')()
return loadstring('a very long line of source text that goes beyond the limit of the name of a chunk')
return load(function() return nil end)
local n = 0 return load(function() n = n + 1 return ({'return ', '1', '+1'})[n] end)()
local n = 0 return load(function() n = n + 1 return n < 3 and 5 or nil end)
return load(function() return {} end)
return load('x')
return collectgarbage('collect'), collectgarbage('step'), type(collectgarbage('count')), type(gcinfo())
return collectgarbage('bad')
return _VERSION
return 'a\98c', 'a\0b' == 'a\0b', #'a\0b', '\65\066\0677', 'a\
b', "it's", 'q"q', '\a\b\f\n\r\t\v\\\'\"' == "\7\8\12\10\13\9\11\92\39\34", '\q'
return [[long]], [==[a]]b]==], #[[¶abc]], [[a¶b]]
--[[ comment ]] return 1 --[==[ x ¶ ]] y ]==] , 2 -- end
--[==[ not closed ] ] ¶
return 1 -- no newline
local goto = 1 return goto
return [==
return [[abc
return 'abc
return 'abc¶'
return '\300'
return 'ab\65\300'
return 'a\65b¶'
f 'a\65' 'b' c
f [==[a]==] [[b]] c
return load(function() error('x') end)
return load(function() error({}) end)
return [=
return [=a
x = 'a\
b\
return '\25a'
return 3x
return 0x
return 1e
return 1..2
return 1 .. 2
return 0x1g
return 1.2.3
x
x.y
x.y z
local
local = 1
local a = 
local a b
local function
local function 5
function
function x
function x(
function x(a
function x(a,)
function x(a b)
function x(..., a)
function x()
if
if x
if x then
if x then else
if x then else elseif
if 1 then 2 end
while
while x
while x do
for
for i
for i =
for i = 1
for i = 1, 2
for i = 1 do end
for i, j
for i, j = 1
for i in
for 5
repeat
repeat until
repeat until ¶
do
end
return return
return 1,
return 1 2
break
while 1 do break x end
while 1 do function f() break end end
f(
f(1
f(1,
f(1 2)
f{
f{1
f{1 2}
f{[1]}
f{[1] 2}
f{a=}
f.5
f:
f:x
f:x.y
a.b:c = 1
a:b() = 1
f() = 1
f() + 1
(f) = 1
(f)
a, b
a, b = 
a, f() = 1
a + 1 = 2
1 = 2
'x':rep(2)
('x'
(
return (
return (1
return {
return {1
return {1,
return {1 2}
return a.
return a[
return a[1
return a.1
return -
return not
return 1 +
return 1 + + 2
return function
return function(
return function() return 1
return ...
return function() return ... end
@
return $
return ~
return 1 ~ 2
return 1 = 2
return 1 != 2
return a ? b : c
return !a
return 'a' 'b'
local x = 5; ; return x
; return 1
local t = {,}
local t = {;}
f¶(1)
local f = function() return 1 end local x = f¶(2)
local f = tostring ¶ f '5'
if true then ¶ do ¶ x = 1 ¶ end
function f() ¶ return 1 ¶ x
for i = 1, 2 do ¶
(a)(¶
{ ¶ 1
repeat ¶ x = 1
return ((((((1))))))
local a <const> = 1
goto x
::x::
return 1 // 2
return 1 & 2
return 'é', #'é'
é = 1
return ` + "`" + `
`
