# A contract through rack-attack, over each of the stores that it knows.

require_relative "tap"
require "active_support"
require "active_support/cache"
require "active_support/notifications"
require "rack/attack"
require "rack/mock"

# The counts of a period are in one key, so a test begins early in a period.
def early(period)
  sleep 0.05 until Time.now.to_f % period < period * 0.4
end

def app(limit: 3, period: 2)
  Rack::Attack.clear_configuration
  Rack::Attack.throttle("asks", limit: limit, period: period) { |request| request.get_header("HTTP_USER") }
  Rack::MockRequest.new(Rack::Builder.new do
    use Rack::Attack
    run ->(_env) { [200, {}, ["fine"]] }
  end)
end

stores = {
  "Redis" => -> { Redis.new(url: URL) },
  "RedisCacheStore" => -> { ActiveSupport::Cache::RedisCacheStore.new(url: URL) },
}
begin
  require "redis-store"
  stores["Redis::Store"] = -> { Redis::Store::Factory.create(URL) }
rescue LoadError
  nil # another package, which is not needed
end

stores.each do |name, make|
  store = make.call
  Rack::Attack.cache.store = store

  check("#{name}: the fourth is denied, of each user") do
    early 2
    ask = app
    equal [200, 200, 200, 429, 429], Array.new(5) { ask.get("/", "HTTP_USER" => "a").status }
    equal 200, ask.get("/", "HTTP_USER" => "b").status
  end

  check("#{name}: a period ends") do
    early 2
    ask = app(limit: 1)
    equal [200, 429], Array.new(2) { ask.get("/", "HTTP_USER" => "a").status }
    sleep 2.05
    equal 200, ask.get("/", "HTTP_USER" => "a").status
  end

  check("#{name}: a counter expires") do
    app(limit: 5, period: 60).get("/", "HTTP_USER" => "a")
    redis = Redis.new(url: URL)
    keys = redis.keys("rack::attack:*")
    equal 1, keys.length
    within 1..61, redis.ttl(keys.first)
  end

  check("#{name}: many at once are counted once each") do
    ask = app(limit: 20, period: 3600)
    statuses = Array.new(4) { Thread.new { Array.new(10) { ask.get("/", "HTTP_USER" => "a").status } } }.flat_map(&:value)
    # RedisCacheStore and Redis::Store write a counter's first count, so hits that come with it are lost, here as in Redis.
    within (name == "Redis" ? 20..20 : 20..23), statuses.count(200)
  end

  check("#{name}: a client that was denied often is banned") do
    Rack::Attack.clear_configuration
    Rack::Attack.blocklist("bans") do |request|
      Rack::Attack::Allow2Ban.filter(request.get_header("HTTP_USER"), maxretry: 2, findtime: 60, bantime: 60) { true }
    end
    ask = Rack::MockRequest.new(Rack::Builder.new do
      use Rack::Attack
      run ->(_env) { [200, {}, ["fine"]] }
    end)
    equal [200, 200, 403], Array.new(3) { ask.get("/", "HTTP_USER" => "a").status }
    Rack::Attack::Allow2Ban.reset("a", findtime: 60)
    equal 200, ask.get("/", "HTTP_USER" => "a").status
  end

  check("#{name}: everything is forgotten") do
    early 2
    ask = app(limit: 1)
    ask.get("/", "HTTP_USER" => "a")
    equal 429, ask.get("/", "HTTP_USER" => "a").status
    Rack::Attack.reset!
    equal 200, ask.get("/", "HTTP_USER" => "a").status
  end
end
