"""Of the Scavenger paper.

testbed     machines, steps and epochs; `play` lets the models of mlcd choose on it
curves      figures 1 to 5 and 10 to 12, and what the search costs beside an oracle
noise       figures 6 to 9: real gradient descent (`sgd`)
searches    the product's own strategy beside an oracle
"""
