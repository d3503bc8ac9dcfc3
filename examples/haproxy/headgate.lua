-- Asks Headgate about a request, and sets txn.headgate to pass, denied or away.

-- The longest path (with its query) and host. Longer ones are denied, because Headgate
-- would not accept the question.
local max_path, max_host = 8000, 1024

core.register_action("headgate", { "http-req" }, function(txn)
	txn:set_var("txn.headgate", "denied") -- if anything below goes wrong
	local host, path = txn.f:req_fhdr("host") or "", txn.f:pathq() or "*"
	if #path > max_path or #host > max_host then
		return
	end
	local response = core.httpclient():get{
		url = "http://127.0.0.1:7380/v1/auth403/routes:edge",
		timeout = 250,
		headers = {
			-- With requirepass: ["authorization"] = { "Bearer <password>" },
			["x-forwarded-for"] = { txn.f:src() },
			["x-forwarded-method"] = { txn.f:method() },
			["x-forwarded-host"] = { host },
			["x-forwarded-uri"] = { path },
		},
	}
	for name, field in pairs({ ratelimit = "ratelimit", policy = "ratelimit-policy", retry = "retry-after" }) do
		if response.headers and response.headers[field] then
			txn:set_var("txn.headgate_" .. name, response.headers[field][0])
		end
	end
	local verdict = "away"
	if response.status == 200 then
		verdict = "pass"
	elseif response.status >= 400 and response.status < 500 then
		verdict = "denied"
	end
	txn:set_var("txn.headgate", verdict)
end)
