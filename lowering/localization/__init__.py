"""Where a file departs from eager: each operator of the model beside the value of the same origin."""
