# A contract through the counters of ActiveSupport's RedisCacheStore, which
# Rails' limits are built on.

require_relative "tap"
require "active_support"
require "active_support/cache"
require "active_support/notifications"
require "active_support/core_ext/numeric/time"

store = ActiveSupport::Cache::RedisCacheStore.new(url: URL, namespace: "app", error_handler: ->(method:, returning:, exception:) { raise exception })
redis = Redis.new(url: URL)

check("a counter goes up and down") do
  equal 1, store.increment("a", 1, expires_in: 60)
  equal 4, store.increment("a", 3, expires_in: 60)
  equal 3, store.decrement("a")
  equal "3", store.read("a", raw: true)
end

check("it expires with its first count") do
  store.increment("a", 1, expires_in: 60)
  first = redis.pttl("app:a")
  within 58_000..60_000, first
  sleep 0.05
  store.increment("a", 1, expires_in: 60)
  within 0..first, redis.pttl("app:a")
end

check("a counter without a life has none") do
  store.increment("a")
  equal(-1, redis.ttl("app:a"))
end

check("fetch, write, exist, delete") do
  equal "x", store.fetch("a", expires_in: 30) { "x" }
  equal "x", store.fetch("a") { "y" }
  equal true, store.exist?("a")
  store.write("b", { n: 1 }, expires_in: 0.2)
  equal({ n: 1 }, store.read("b"))
  sleep 0.25
  equal nil, store.read("b")
  store.delete("a")
  equal false, store.exist?("a")
end

check("only what is not there is written") do
  equal true, store.write("a", "one", unless_exist: true, expires_in: 60)
  equal false, store.write("a", "two", unless_exist: true, expires_in: 60)
  equal "one", store.read("a")
end

check("many at once") do
  store.write_multi({ "a" => 1, "b" => 2 })
  equal({ "a" => 1, "b" => 2 }, store.read_multi("a", "b", "c"))
  4.times.map { Thread.new { 25.times { store.increment("n", 1, expires_in: 60) } } }.each(&:join)
  equal "100", store.read("n", raw: true)
end

check("keys that match are deleted, and all") do
  store.write("user:1", 1)
  store.write("user:2", 1)
  store.write("other", 1)
  store.delete_matched("user:*")
  equal [false, false, true], %w[user:1 user:2 other].map { |key| store.exist?(key) }
  store.clear
  equal 0, redis.dbsize
end
