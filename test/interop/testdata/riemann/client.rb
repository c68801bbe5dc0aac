# Sends the events of a file, or prints the answer to a query.
# usage: client.rb send FILE | query TEXT    (environment: PORT)
require 'json'
require 'riemann/client'

client = Riemann::Client.new(host: '127.0.0.1', port: ENV['PORT'].to_i, timeout: 30)
if ARGV[0] == 'send'
  File.foreach(ARGV[1]) do |line|
    e = JSON.parse(line, symbolize_names: true)
    kind, metric, attributes = e.delete(:kind), e.delete(:metric), e.delete(:attributes)
    case kind
    when 'sint64' then e[:metric] = Integer(metric)
    when 'd' then e[:metric] = Float(metric)
    else e[:metric_f] = Float(metric)
    end
    client.tcp << e.merge(attributes)
  end
else
  client.query(ARGV[1]).events.each do |e|
    h = e.to_hash
    h[:metric] = (h.delete(:metric_sint64) || h.delete(:metric_d) || h.delete(:metric_f)).to_s
    h[:attributes] = h[:attributes].to_h { |a| [a[:key], a[:value]] }
    puts JSON.generate(h)
  end
end
