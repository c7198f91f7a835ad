"""EC2's protocol: moto answers what it can, and this folder the rest.

endpoint    every request comes in here: faults first, then our own answers, then moto
request     what a request asks for: service, region, action, parameters
response    responses and errors in the protocol of the service that was called
account     moto's memory of regions, instances, images and addresses, made to fit the emulation
launch      RunInstances: tokens, quotas, capacity, zones, spot
groups      placement groups
quotas      service quotas
prices      list prices and the history of spot prices
faults      what the API is made to refuse
"""
