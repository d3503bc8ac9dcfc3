# Runs the tests of a contract and prints TAP.

require "redis"

HOST = ENV.fetch("DROPIN_HOST")
PORT = ENV.fetch("DROPIN_PORT").to_i
URL = "redis://#{HOST}:#{PORT}"

$number = 0

# check runs a test on an empty server. It passes if it raises nothing.
def check(title)
  Redis.new(host: HOST, port: PORT).flushall
  $number += 1
  yield
  puts "ok #{$number} - #{title}"
rescue StandardError => e
  puts "not ok #{$number} - #{title}"
  warn "#{title}: #{e.class}: #{e.message}", e.backtrace.first(5)
end

def equal(want, got, what = nil)
  raise "#{what} want #{want.inspect}, got #{got.inspect}" unless want == got
end

def within(range, got, what = nil)
  raise "#{what} want #{range}, got #{got.inspect}" unless range.cover?(got)
end
