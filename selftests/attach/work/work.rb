# SPDX-License-Identifier: GPL-2.0-only
require "json"
wrong = false
File.write("began", "")
until File.exist?("stop")
  values = (0...300).map { |i| { "number" => i, "text" => i.to_s * 200, "list" => (0..i % 10).to_a } }
  wrong = true if JSON.parse(JSON.generate(values)) != values
end
puts wrong ? "wrong" : "right"
